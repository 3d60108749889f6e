"""What a dead mount left behind is found by `leasefs doctor`, and taken over if asked (P8, P9)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.embedded import ensure_ledger
from leasefs.testing.agents import agent_mount
from leasefs.testing.own_world import own_world

pytestmark = [pytest.mark.mount, pytest.mark.chaos]

LEASEFS = str(Path(sys.executable).parent / "leasefs")


def doctor(*flags: str) -> dict[str, Any]:
    """The finding about journals."""
    command = [LEASEFS, "doctor", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = json.loads(done.stdout)["findings"]
    found: dict[str, Any] = next(one for one in findings if one["check"].startswith("journals"))
    return found


def test_doctor_tells_the_ledger_and_keeps_what_a_dead_mount_left(tmp_path: Path) -> None:
    with own_world(str(tmp_path)) as world:
        tree = Path(world.root, "tree")
        tree.mkdir()
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tree)]
        subprocess.run([*git, "init", "-q"], check=True)
        (tree / "kept").write_text("as it was")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
        os.mkdir(f"{world.root}/mount")
        with agent_mount(str(tree), f"{world.root}/mount", "agent-07", dies=True) as dying:
            lease = dying.claim("**")
            dying.write("kept", "changed")
            dying.write("new", "untracked")
            dying.kill()
        before = doctor()
        assert before["level"] == "warn"
        assert "agent-07" in before["found"]
        assert doctor("--fix")["level"] == "ok"
        assert doctor()["found"] == "no dead mount left any"
        ledger = Link(ensure_ledger())
        intents = ledger.send(api.intents())["intents"]
        assert {(one["path"], one["agent"]) for one in intents} == {
            ("kept", "agent-07"),
            ("new", "agent-07"),
        }
        (rescue,) = ledger.send(api.rescues())["rescues"]
        assert (rescue["lease"], rescue["agent"]) == (lease["lease"], "agent-07")
        shown = subprocess.run(
            [*git, "show", f"{rescue['ref']}:kept"], check=True, capture_output=True
        )
        assert shown.stdout == b"changed"
