"""Telling the ledger: in order, each author's apart, and nothing true is lost with what it does not take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.errors import InvalidRequest, LedgerUnavailable
from leasefs.mount.intent_report import IN_ONE_REPORT, IntentReport, tell
from leasefs.mount.journal import Header, Journal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from leasefs.client import api
    from leasefs.client.sse import StreamEvent

pytestmark = pytest.mark.trio

HEADER = Header("t-1", "/r", "h", "t", "agent-07", "claude", "s-1")


class Ledger:
    """Takes notes, but not of the paths in `bad`."""

    def __init__(self, *bad: str) -> None:
        self.bad = set(bad)
        self.taken: list[tuple[str, str]] = []
        self.reports = 0

    async def send(self, call: api.Call) -> api.Body:
        body = call.body
        assert body is not None
        paths = [note["path"] for note in body["notes"]]
        assert not any("agent" in note for note in body["notes"])
        if self.bad & set(paths):
            raise InvalidRequest("a path that cannot be")
        self.reports += 1
        self.taken += [(body.get("agent", ""), path) for path in paths]
        return {"stale": [note for note in body["notes"] if note["token"] == 0]}


def _note(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "other": "", "token": 7, **more}


async def test_one_note_that_is_not_taken_takes_no_other_with_it() -> None:
    ledger = Ledger("f3", "f77")
    assert await tell(ledger.send, HEADER, [_note(f"f{at}") for at in range(100)]) == []
    assert [path for _, path in ledger.taken] == [
        f"f{at}" for at in range(100) if at not in (3, 77)
    ]


async def test_what_others_changed_is_told_as_theirs_and_in_order() -> None:
    ledger = Ledger()
    theirs = {"agent": "agent-09", "harness": "other"}
    notes = [_note("a"), _note("b", **theirs), _note("c", **theirs), _note("d")]
    await tell(ledger.send, HEADER, notes)
    assert ledger.taken == [("", "a"), ("agent-09", "b"), ("agent-09", "c"), ("", "d")]
    ledger.taken.clear()
    await tell(ledger.send, HEADER, notes, recovered=True)
    assert [agent for agent, _ in ledger.taken] == ["agent-07", "agent-09", "agent-09", "agent-07"]


async def test_a_report_is_bounded_by_number_and_by_size() -> None:
    ledger = Ledger()
    await tell(ledger.send, HEADER, [_note(f"f{at}") for at in range(2 * IN_ONE_REPORT + 1)])
    assert ledger.reports == 3
    ledger.reports = 0
    await tell(ledger.send, HEADER, [_note("f" * 60_000) for _ in range(4)])
    assert ledger.reports == 2


async def test_stale_ones_are_answered_and_a_ledger_that_is_away_is_said() -> None:
    ledger = Ledger()
    stale = await tell(ledger.send, HEADER, [_note("a"), _note("b", token=0)])
    assert [note["path"] for note in stale] == ["b"]

    async def away(_: api.Call) -> api.Body:
        raise LedgerUnavailable("away")

    with pytest.raises(LedgerUnavailable):
        await tell(away, HEADER, [_note("a"), _note("b")])


class Sizes:
    """A transport that keeps the sizes which it is told."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}

    async def send(self, call: api.Call, *, timeout_s: float) -> api.Body:
        body = call.body
        assert body is not None
        self.told.update({note["path"]: note["size"] for note in body["notes"]})
        return {}

    def stream(
        self, call: api.Call, *, silence_s: float
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        raise NotImplementedError


async def test_each_path_is_told_with_its_size_and_no_link_is_followed_on_the_way(
    tmp_path: Path,
) -> None:
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    (tree / "a/b").mkdir(parents=True)
    elsewhere.mkdir()
    for path, size in (("top", 1), ("a/one", 2), ("a/b/two", 3), ("a/b/three", 4)):
        (tree / path).write_bytes(b"x" * size)
    (elsewhere / "file").write_bytes(b"x" * 1000)
    (tree / "link").symlink_to(elsewhere)
    (tree / "a/to").symlink_to("one")
    journal = Journal(str(tmp_path), HEADER)
    # The order in which they changed is not that of their directories.
    sizes = {"a/b/two": 3, "top": 1, "link/file": 0, "a/one": 2, "a/b/three": 4}
    sizes |= {"a/gone": 0, "gone/file": 0, "a/to": 3, "a/b/": (tree / "a/b").stat().st_size}
    for path in sizes:
        journal.note(_note(path))
    transport = Sizes()
    root_fd = os.open(tree, os.O_RDONLY)
    await IntentReport(journal, HEADER, transport, root_fd).flush()
    os.close(root_fd)
    journal.close()
    assert transport.told == sizes
