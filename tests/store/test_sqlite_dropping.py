"""Old events go, and the file stays a ledger: whatever is killed when, and however the numbers jump."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.store.chain import event_sum
from leasefs.store.errors import StoreCorrupt
from leasefs.store.port import MILESTONE_EVERY, SNAPSHOTS_KEPT, Entry, Snapshot, worth_keeping
from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path


@given(st.sets(st.integers(0, 10 * MILESTONE_EVERY), max_size=40))
def test_what_is_kept_of_snapshots_is_bounded_and_enough(seqs: set[int]) -> None:
    kept = worth_keeping(seqs)
    assert kept <= seqs
    assert {*sorted(seqs)[:1], *sorted(seqs)[-SNAPSHOTS_KEPT:]} <= kept
    assert len(kept) <= SNAPSHOTS_KEPT + 1 + 10 + 1
    assert {seq // MILESTONE_EVERY for seq in kept} == {seq // MILESTONE_EVERY for seq in seqs}
    assert worth_keeping(kept) == kept, "thinning again takes nothing more"


def filled(path: Path, events: int = 3_000, size: int = 300) -> SqliteStore:
    store = SqliteStore(path)
    store.append(0, [b"%d " % i + b"x" * size for i in range(1, events + 1)])
    for seq in (events // 2, events * 3 // 4, events):
        store.save_snapshot(Snapshot(seq, b"state at %d" % seq))
    return store


def test_after_dropping_the_file_is_sound_and_says_where_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = filled(path)
    while store.drop(2_250, 500) < 2_250:
        pass
    assert store.verify().problems == ()
    assert store.verify().events == 750
    store.close()
    with_witness = SqliteStore(path)
    assert (with_witness.base(), with_witness.head()) == (2_250, 3_000)
    assert with_witness.read(2_250, 1)[0].seq == 2_251
    with_witness.close()


def test_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = filled(path, events=20_000)
    store.close()
    full_bytes = path.stat().st_size
    store = SqliteStore(path)
    while store.drop(15_000, 1_000) < 15_000:
        pass
    while store.give_back():
        pass
    store.close()
    assert path.stat().st_size < full_bytes * 0.45


def test_a_file_made_before_gives_room_back_once_it_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    filled(path).close()
    with closing(sqlite3.connect(path)) as old:
        old.execute("PRAGMA auto_vacuum = NONE")
        old.execute("VACUUM")
    store = SqliteStore(path)
    while store.drop(2_250, 500) < 2_250:
        pass
    assert not store.give_back()
    before_bytes = path.stat().st_size
    store.rebuild()
    assert store.verify().problems == ()
    store.append(3_000, [b"more"])
    store.close()
    assert path.stat().st_size < before_bytes / 2
    with closing(sqlite3.connect(path)) as new:
        assert new.execute("PRAGMA auto_vacuum").fetchone() == (2,)


# Dies of its own hand at the n-th thing that SQLite is asked to do while old events are dropped.
KILLED = """
import os, signal, sys
from leasefs.store.port import Snapshot
from leasefs.store.sqlite import SqliteStore
path, die_at = sys.argv[1], int(sys.argv[2])
store = SqliteStore(path)
seen = 0
def count(_):
    global seen
    seen += 1
    if seen == die_at:
        os.kill(os.getpid(), signal.SIGKILL)
store._writer.set_trace_callback(count)
while store.drop(200, 100) < 200:
    store.append(store.head(), [b"meanwhile"])
store.save_snapshot(Snapshot(store.head(), b"late"))
store.close()
print(seen)
"""


def test_killed_at_any_statement_of_it_the_log_is_readable(tmp_path: Path) -> None:
    """`kill -9` before each statement, one after the other, until one run is not killed any more."""
    killed = 0
    for die_at in range(1, 100):
        path = tmp_path / str(die_at) / "ledger.db"
        path.parent.mkdir()
        filled(path, events=400, size=3_000).close()
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, path, str(die_at)],
            check=False,
            capture_output=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        store = SqliteStore(path)
        base, head = store.base(), store.head()
        assert base in {0, 100, 200}
        assert head >= 400
        assert [entry.seq for entry in store.read(base, 1_000)] == list(range(base + 1, head + 1))
        assert store.load_snapshot() is not None
        assert store.verify().problems == ()
        while store.drop(200, 100) < 200:
            pass
        assert store.base() == 200
        store.close()
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr.decode()
        killed += 1
    else:
        pytest.fail("it never came to its end")
    assert killed > 10, "the test must have killed it at each step"


def jumped(path: Path, to_seq: int) -> None:
    """As a restored backup has it: one event whose number does not follow, and whose sum says so."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        seq, head_sum = database.execute("SELECT seq, sum FROM bound WHERE name='head'").fetchone()
        assert seq < to_seq
        new_sum = event_sum(head_sum, to_seq, b"restored")
        database.execute("INSERT INTO event VALUES (?, ?, ?)", (to_seq, b"restored", new_sum))
        database.execute("UPDATE bound SET seq=?, sum=? WHERE name='head'", (to_seq, new_sum))


def test_readers_pass_over_a_gap_that_the_chain_vouches_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    filled(path, events=10, size=1).close()
    jumped(path, 1_000)
    store = SqliteStore(path)
    assert store.head() == 1_000
    assert store.append(1_000, [b"next"]) == 1_001
    assert [entry.seq for entry in store.read(8, 10)] == [9, 10, 1_000, 1_001]
    assert [entry.seq for entry in store.read(8, 2)] == [9, 10]
    for inside in (10, 11, 500, 999):
        assert store.read(inside, 1) == [Entry(1_000, b"restored")]
    assert store.verify().problems == ()
    store.save_snapshot(Snapshot(1_001, b"s"))
    assert store.drop(10, 1_000) == 10
    assert [entry.seq for entry in store.read(500, 10)] == [1_000, 1_001]
    store.close()


@pytest.mark.parametrize("gone", [10, 1_000, 5])
def test_a_missing_event_is_no_such_gap(tmp_path: Path, gone: int) -> None:
    path = tmp_path / "ledger.db"
    filled(path, events=10, size=1).close()
    jumped(path, 1_000)
    store = SqliteStore(path)
    store.append(1_000, [b"next"])
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DELETE FROM snapshot")
        database.execute("DELETE FROM event WHERE seq = ?", (gone,))
    with pytest.raises(StoreCorrupt, match="missing"):
        SqliteStore(path)
