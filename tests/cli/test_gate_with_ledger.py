"""The installed command against a real ledger: what a release leaves behind, and who is told of it (P9)."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.shell_session import stored_sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TREE = {"host": "build-3", "root": "/home/ada/repo"}
LONG = "ü" * 2_000


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Any) -> Iterator[Path]:
    root = tmp_path / "repo"
    root.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)
    monkeypatch.chdir(root)
    yield root
    stopped = installed("ledger", "stop")
    assert stopped.code in (0, 7), stopped.err


def link_of(agent: str) -> Link:
    """What a mount of this agent would use."""
    (session,) = [one for one in stored_sessions() if one.agent == agent]
    return Link(session.ledger, session.credentials)


def test_dirty_work_is_seen_gated_and_handed_over(installed: Any, repo: Path) -> None:
    lease = json.loads(installed("claim", "src/**", "--agent", "ada", "--json").out)
    note = {"kind": "create", "lease": lease["lease"], "token": lease["token"], "wall_s": 1.0}
    notes = [{**note, "path": f"src/{name}"} for name in ("a", "caf\udce9")]
    ada = link_of("ada")
    said = ada.send(api.report_intents("t-1", notes, host=TREE["host"], root=TREE["root"]))
    assert said == {"accepted": 2, "stale": []}

    listed = installed("intents", "--older", "24h")
    assert listed.code == 0
    assert "build-3:/home/ada/repo" in listed.out
    assert "src/caf\\xe9" in listed.out
    assert "intents:      2 dirty, 0 committed and not landed" in installed("status").out

    refused = installed("release", lease["lease"], "--agent", "ada")
    assert (refused.code, refused.out) == (6, "")
    assert "2 paths not yet committed: 'src/a'" in refused.err
    assert installed("release", lease["lease"], "--agent", "ada", "--rescue").code == 2

    waiting = installed("claim", "src/a", "--agent", "bo", "--wait", "1s")
    assert waiting.code == 4
    kept = installed("release", lease["lease"], "--agent", "ada", "--keep", "--note", LONG)
    assert kept.code == 0, kept.err
    claimed = installed("claim", "src/a", "--agent", "bo")
    assert claimed.code == 0
    assert LONG in claimed.err
    assert "ada changed src/a under" in claimed.err
    log = installed("log", "--type", "released", "--type", "release-refused").out
    assert "is dirty: src/a" in log
    assert "uncommitted work stays in the tree; note for the next holder: üü" in log
    assert installed("release", "--all", "--agent", "bo").code == 0


def test_the_ledger_starts_again_and_nothing_is_forgotten(installed: Any, repo: Path) -> None:
    """P8: kill -9 is a matter of tests/chaos; a stop and a start are one here."""
    lease = json.loads(installed("claim", "**", "--agent", "ada", "--json").out)
    note = {"path": "x", "kind": "modify", "lease": lease["lease"], "token": lease["token"]}
    call = api.report_intents("t-1", [{**note, "wall_s": 1.0}], host="h", root="/r")
    link_of("ada").send(call)
    before = json.loads(installed("intents", "--json").out)
    assert len(before["intents"]) == 1
    assert installed("ledger", "stop").code == 0
    assert json.loads(installed("intents", "--json").out) == before
