"""One agent behind a real mount in place, with a ledger that another agent holds a part of the tree in; and the command line."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_credentials
from leasefs.testing.agents import Agent, agent_mount

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def agent_beside_another(tree: str) -> Iterator[Agent]:
    """agent-07's mount over `tree`, which holds `mine/**`; agent-08 has `theirs/**`."""
    for name in ("mine", "theirs"):
        os.makedirs(f"{tree}/{name}")
        Path(tree, name, "f").write_text("old\n", encoding="ascii")
    subprocess.run(["git", "init", "-q", tree], check=True)
    with agent_mount(tree, tree) as agent:
        agent.claim("mine/**", ttl_s=3600.0)
        _held_by_another(agent, "theirs/**")
        yield agent


def _held_by_another(agent: Agent, glob: str) -> None:
    credentials = new_credentials()
    link = Link(agent.about["ledger"], credentials)
    opening = api.open_session(
        session=credentials.session,
        secret=credentials.secret,
        agent="agent-08",
        harness="test",
        territory=agent.about["territory"],
        kind="shell",
        host="here",
        pid=1,
        process="",
    )
    link.send(opening)
    assert link.send(api.claim([glob], key="k", ttl_s=3600.0))["state"] == "granted"


def leasefs(cwd: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a directory, with more or other variables."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from leasefs_cli.main import main; sys.exit(main())",
            *arguments,
        ],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def private(directory: Path) -> str:
    """A directory for this user alone, made if it is missing."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(directory)
