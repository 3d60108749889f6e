"""Several commands of one agent share its stored session, and none ends it under another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api, paths
from leasefs.client.embedded import ledger_link
from leasefs.client.shell_session import alone_with, shell_session, stored_sessions
from leasefs.testing.own_world import World, own_world

if TYPE_CHECKING:
    from collections.abc import Iterator

# Another command of the same agent: it opens the session, says so, and goes on until told to end.
COMMAND = """
import sys
from leasefs.client.embedded import ledger_link
from leasefs.client.shell_session import shell_session
print(shell_session(ledger_link(), agent="a", harness="h", territory="t").credentials.session)
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


def test_a_session_in_use_by_another_command_is_not_there_to_be_ended(world: World) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = other.stdout.readline().strip()
        session = shell_session(ledger_link(), agent="a", harness="h", territory="t")
        assert session.credentials.session == theirs
        with alone_with(session) as alone:
            assert not alone
        other.communicate("")
        with alone_with(session) as alone:
            assert alone


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json",
        b"[]",
        b"7",
        b"{}",
        b'{"session": 1, "secret": 2, "agent": 3, "territory": 4, "ledger": 5}',
        b'{"session": null}',
        b"\xff\xfe",
        None,
    ],
)
def test_a_stored_session_that_cannot_be_read_is_none(world: World, content: bytes | None) -> None:
    link = ledger_link()
    first = shell_session(link, agent="a", harness="h", territory="t")
    (stored,) = Path(paths.sessions_dir()).glob("*.json")
    kept = json.loads(stored.read_text())
    link.send(api.end_session(kept["session"]))
    stored.unlink()
    if content is None:
        stored.mkdir()
        assert stored_sessions() == []
        return
    stored.write_bytes(content)
    assert stored_sessions() == []
    second = shell_session(link, agent="a", harness="h", territory="t")
    assert second.credentials != first.credentials
    assert stored_sessions() == [second]
