"""A mount whose agent's identity is revoked: it stops, keeps what is uncommitted, and its ground opens (P3, P9)."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_key
from leasefs.client.shell_session import shell_session
from leasefs.core.errors import Denied
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.ledger_process import LedgerProcess
from leasefs.testing.refusals import refusal_of
from leasefs.testing.uncommitted import git, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


@pytest.fixture
def ledger(world: World) -> Iterator[LedgerProcess]:
    directory = os.path.join(world.root, "shared")
    os.mkdir(directory, 0o700)
    with LedgerProcess(directory) as ledger:
        os.environ["LEASEFS_LEDGER"] = f"unix:{ledger.socket_path}"
        yield ledger


@pytest.fixture
def agent(repo: str, world: World, ledger: LedgerProcess) -> Iterator[Agent]:
    new_repository(repo)
    path = os.path.join(world.root, "agent-07.token")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(ledger.add_agent("agent-07"))
    os.environ["LEASEFS_TOKEN_FILE"] = path
    with agent_mount(repo, repo) as agent:
        del os.environ["LEASEFS_TOKEN_FILE"]
        yield agent


def test_its_work_is_kept_and_its_ground_is_free_long_before_its_lease_would_have_ended(
    agent: Agent, ledger: LedgerProcess, repo: str
) -> None:
    held = agent.claim("src/**", ttl_s=3600.0)
    agent.write("src/a", "not committed")
    shell = Link(os.environ["LEASEFS_LEDGER"], timeout_s=20.0)
    shell_session(shell, agent="shell-1", harness="h", territory=agent.about["territory"])
    waiting = shell.send(api.claim(["src/a"], key=new_key(), wait=True))
    eventually(lambda: ledger.ask("GET", "/v1/intents").json["intents"])
    assert ledger.ask("POST", "/v1/agents/agent-07/revoke", {}).status == 200
    granted = shell.send(api.lease(waiting["lease"], wait_s=60.0))
    assert granted["state"] == "granted"
    assert refusal_of(agent.write, "src/a") == errno.EACCES
    kept = git(repo, "for-each-ref", "--format=%(refname)", "refs/leasefs/rescue").decode().split()
    assert len(kept) == 1
    assert held["lease"] in kept[0]
    assert git(repo, "show", f"{kept[0]}:src/a") == b"not committed"
    with pytest.raises(Denied):
        agent.claim("src/**")
    assert "session-ended" in str(ledger.ask("GET", "/v1/events?types=session-ended").json)
