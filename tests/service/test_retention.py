"""The log stays bounded: what may go, that it goes in bites while the ledger serves, and where it is kept afterwards."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import pwd
import shutil
import signal
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.core.commands import ClaimLease
from leasefs.core.state import State
from leasefs.service import compacting, snapshot
from leasefs.service.archive import Archive
from leasefs.service.compacting import Compactor
from leasefs.service.entries import record_of
from leasefs.service.recovery import recover
from leasefs.service.retention import Retention, cut, target
from leasefs.service.snapshot import Saved
from leasefs.service.stream import StreamHub, Wanted
from leasefs.service.writer import LedgerWriter
from leasefs.store.memory import MemoryStore
from leasefs.store.port import Snapshot
from leasefs.store.sqlite import SqliteStore
from leasefs.testing.clock import FakeClock
from leasefs.testing.command_histories import SESSIONS, decisions, open_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def filled(store: Any, events: int = 200, snapshots: tuple[int, ...] = (50, 100, 150)) -> State:
    """Events 1 to `events`, one each second of the wall clock, and the states at some of them."""
    state = State()
    claims = [(ClaimLease(SESSIONS[0], f"k{n}", (f"a/{n}",)), 1.0) for n in range(1, events)]
    for before, decision in decisions([(open_command(0), 1.0), *claims]):
        (event,) = decision.events
        state = decision.state
        store.append(event.seq - 1, [record_of(event, before, state, float(event.seq)).data])
        if event.seq in snapshots:
            store.save_snapshot(Snapshot(event.seq, snapshot.written(Saved(state, None))))
    return state


@pytest.fixture(scope="module")
def log() -> MemoryStore:
    store = MemoryStore()
    filled(store)
    return store


@pytest.mark.parametrize(
    ("keep", "upto"),
    [
        (Retention(), 0),
        (Retention(None), 0),
        (Retention(80, young_s=0.0), 120),
        (Retention(None, 40.0, young_s=0.0), 260),
        (Retention(None, 140.0, young_s=0.0), 160),
        (Retention(80, 140.0, young_s=0.0), 160),
        (Retention(80, 140.0, young_s=150.0), 150),
        (Retention(80, 140.0, young_s=3600.0), 0),
        (Retention(0, young_s=0.0), 200),
        (Retention(10**9, 1e9, 10**12), 0),
    ],
)
def test_what_need_not_be_kept(log: MemoryStore, keep: Retention, upto: int) -> None:
    """At second 300: all bounds hold, and the young stay."""
    assert cut(log, keep, 300.0) == min(upto, 200)


def test_by_size(log: MemoryStore) -> None:
    size_bytes = log.size_bytes()
    assert cut(log, Retention(None, None, size_bytes), 300.0) == 0
    assert 95 <= cut(log, Retention(None, None, size_bytes // 2, young_s=0.0), 300.0) <= 105


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 250))
def test_the_log_begins_at_a_state_with_another_one_after_it(log: MemoryStore, upto: int) -> None:
    found = target(log, upto)
    assert found <= upto
    assert found == max([0, *(seq for seq in (50, 100) if seq <= upto)])


def test_a_state_that_cannot_be_read_keeps_what_it_would_need() -> None:
    store = MemoryStore()
    filled(store)
    store.save_snapshot(Snapshot(100, b"{}"))
    assert target(store, 199) == 50
    store.save_snapshot(Snapshot(150, b"{}"))
    assert target(store, 199) == 0, "the newest must be readable, too"


def compactor(store: Any, archive: str = "") -> Compactor:
    writer = LedgerWriter(store, FakeClock(), recover(store).state)
    return Compactor(store, StreamHub(store, writer), archive=archive)


def test_it_goes_in_bites_with_rests_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    store, bites = MemoryStore(), []
    state = filled(store)
    drop = store.drop

    def counted(upto_seq: int, limit: int) -> int:
        bites.append(limit)
        return drop(upto_seq, limit)

    monkeypatch.setattr(store, "drop", counted)
    monkeypatch.setattr(compacting, "BITE_EVENTS", 7)

    async def main() -> None:
        one = compactor(store)
        await one.drop(100)

    asyncio.run(main())
    assert store.base() == 100
    assert bites == [7] * 15
    assert recover(store).state.leases == state.leases


def test_an_operator_drops_by_hand(
    serving: Any, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """And the system's log says who did, since the ledger's own has one past less."""
    store = MemoryStore()
    state = filled(store)

    async def main() -> None:
        async with serving(store, state) as ledger:
            ask = ledger.client.ask
            begun = await ask("POST", "/v1/compactions", {"keep_events": 90})
            assert (begun.status, begun.json) == (202, {"base": 0, "target": 100})
            await until(lambda: store.base() == 100)
            extent = (await ask("GET", "/v1/history")).json
            assert (extent["base"], extent["states_from"], extent["head"]) == (100, 100, 200)
            # The base is there a moment before the one who brought it there is done.
            again = begun
            while again is begun or again.status == 503:
                again = await ask("POST", "/v1/compactions", {"keep_events": 90})
            assert again.json == {"base": 100, "target": 100}
            nothing = await ask("POST", "/v1/compactions", {})
            assert nothing.json == {"base": 100, "target": 100}
            assert (await ask("GET", "/v1/events?after=0&limit=1")).json["events"][0]["seq"] == 101

    asyncio.run(main())
    facts = [vars(one).get("facts", {}) for one in caplog.records]
    told = [one for one in facts if one.get("what") == "compact"]
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert [(one["by"], one["upto_seq"]) for one in told] == [(user, 100)]


def lines_of(path: str) -> list[bytes]:
    with gzip.open(path, "rb") as file:
        return file.readlines()


def test_it_looks_by_itself_now_and_then(monkeypatch: pytest.MonkeyPatch, until: Any) -> None:
    """By the setting, and again; what cannot be read keeps it from nothing else."""
    monkeypatch.setattr(compacting, "LOOK_EVERY_S", 0.001)
    store = MemoryStore()
    filled(store)

    async def main() -> None:
        one = compactor(store)
        task = asyncio.create_task(one.run(Retention(90, young_s=0.0), lambda: 300.0))
        await until(lambda: store.base() == 100)
        head = store.append(200, store_line(store, 200) * 60)
        store.save_snapshot(Snapshot(head, b"{}"))
        await until(lambda: not task.done())
        assert store.base() == 100, "the newest state cannot be read, so nothing goes"
        task.cancel()

    asyncio.run(main())


def store_line(store: Any, seq: int) -> list[bytes]:
    return [store.read(seq - 1, 1)[0].data]


def test_what_is_dropped_is_archived_before(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("leasefs.service.archive.SEGMENT_EVENTS", 40)
    monkeypatch.setattr("leasefs.service.archive.PAGE", 20)
    store = SqliteStore(tmp_path / "ledger.db")
    filled(store)
    before = {entry.seq: entry.data for entry in store.read(0, 1_000)}
    directory = tmp_path / "archive"
    asyncio.run(compactor(store, str(directory)).drop(100))
    assert store.base() == 100
    archive = Archive(str(directory))
    assert [(one.first, one.last) for one in archive.segments()] == [(1, 40), (41, 80), (81, 100)]
    assert {os.stat(one.path).st_mode & 0o777 for one in archive.segments()} == {0o600}
    lines = [json.loads(line) for one in archive.segments() for line in lines_of(one.path)]
    assert [line["seq"] for line in lines] == list(range(1, 101))
    for line in lines:
        written = json.loads(before[line["seq"]])
        assert {name: line[name] for name in written} == written
    assert archive.verify() == []
    asyncio.run(compactor(store, str(directory)).drop(100))
    assert len(archive.segments()) == 3, "nothing is written twice"
    store.close()


def test_a_server_that_stops_does_not_wait_for_its_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is to write; nothing is dropped, and the next one begins anew."""
    monkeypatch.setattr("leasefs.service.archive.PAGE", 1)
    store, directory = MemoryStore(), str(tmp_path / "archive")
    filled(store)

    async def main() -> None:
        one = compactor(store, directory)
        await one.begin(Retention(90, young_s=0.0), 300.0)
        await one.close()

    asyncio.run(main())
    assert store.base() == 0
    assert not os.path.exists(directory) or Archive(directory).segments() == []
    asyncio.run(compactor(store, directory).drop(100))
    assert numbers(Archive(directory)) == set(range(1, 101))


@pytest.mark.parametrize("damage", ["flip", "cut", "rename", "swap"])
def test_a_damaged_archive_is_found(tmp_path: Path, monkeypatch: Any, damage: str) -> None:
    monkeypatch.setattr("leasefs.service.archive.SEGMENT_EVENTS", 60)
    monkeypatch.setattr("leasefs.service.archive.PAGE", 20)
    store = SqliteStore(tmp_path / "ledger.db")
    filled(store)
    archive = Archive(str(tmp_path / "archive"))
    archive.keep(store, 150)
    store.close()
    path = archive.segments()[1].path
    lines = lines_of(path)
    if damage == "flip":
        lines[5] = lines[5].replace(b"a/", b"b/", 1)
    elif damage == "cut":
        del lines[7]
    elif damage == "swap":
        lines[3], lines[4] = lines[4], lines[3]
    with gzip.open(path, "wb") as file:
        file.writelines(lines)
    if damage == "rename":
        os.rename(path, path.replace("120", "121"))
    assert len(archive.verify()) == 1


def dying(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        step()
        answer = call(*arguments, **options)
        step()
        return answer

    return wrapped


def drops_until_killed(place: Path, die_at: int) -> None:
    """In a process of its own: it dies of its own hand before or after one of the calls that matter."""
    seen = 0

    def step() -> None:
        nonlocal seen
        seen += 1
        if seen == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    store = SqliteStore(place / "ledger.db")
    for name in ("replace", "fsync"):
        setattr(os, name, dying(getattr(os, name), step))
    SqliteStore.drop = dying(SqliteStore.drop, step)  # type: ignore[method-assign]
    asyncio.run(compactor(store, str(place / "archive")).drop(100))


def numbers(archive: Archive) -> set[int]:
    return {n for one in archive.segments() for n in range(one.first, one.last + 1)}


def test_killed_while_it_archives_or_drops_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kill -9` around each call that names, syncs or drops: what is not in the log is in the archive."""
    monkeypatch.setattr("leasefs.service.archive.SEGMENT_EVENTS", 60)
    monkeypatch.setattr("leasefs.service.archive.PAGE", 60)
    monkeypatch.setattr(compacting, "BITE_EVENTS", 60)
    store = SqliteStore(tmp_path / "ledger.db")
    filled(store)
    store.close()
    fork, killed = get_context("fork"), 0
    for die_at in range(1, 60):
        place = tmp_path / str(die_at)
        place.mkdir()
        shutil.copy(tmp_path / "ledger.db", place)
        child = fork.Process(target=drops_until_killed, args=(place, die_at))
        child.start()
        child.join(60)
        store = SqliteStore(place / "ledger.db")
        base, archive = store.base(), Archive(str(place / "archive"))
        kept: set[int] = set()
        if (place / "archive").exists():
            assert archive.verify() == []
            kept = numbers(archive)
        assert set(range(1, base + 1)) <= kept
        assert [entry.seq for entry in store.read(base, 1_000)] == list(range(base + 1, 201))
        asyncio.run(compactor(store, str(place / "archive")).drop(100))
        assert archive.verify() == []
        assert numbers(archive) >= set(range(1, 101))
        store.close()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        killed += 1
    else:
        pytest.fail("it never came to its end")
    assert killed >= 10


def test_the_memory_of_a_follower_that_comes_late(serving: Any) -> None:
    """Who follows from before the beginning is given what there is, from the beginning on."""
    store = MemoryStore()
    state = filled(store)
    store.drop(100, 1_000)

    async def main() -> None:
        async with serving(store, state) as ledger:
            follower = ledger.hub.follow(Wanted(), 3)
            first = await follower.next()
            assert first[0].seq == 101
            assert ledger.hub.base == 100

    asyncio.run(main())
