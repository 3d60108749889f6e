"""Damage of every kind is found and named, and the damaged file is left as it is."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from leasefs.store.errors import StoreCorrupt, StoreError, StoreUnavailable
from leasefs.store.port import Entry, Snapshot
from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = 200


def event(seq: int) -> bytes:
    return b'{"seq":%d,"path":"%b"}' % (seq, b"p" * 280)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed ledger of 200 events and a snapshot at 100."""
    path = tmp_path / "ledger.db"
    store = SqliteStore(path)
    store.append(0, [event(seq) for seq in range(1, EVENTS + 1)])
    store.save_snapshot(Snapshot(100, b"state at 100"))
    store.close()
    return path


def change(path: Path, *statements: str) -> None:
    """Somebody's hand in the file, by way of SQLite itself."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def refused(path: Path) -> str:
    """Opening must refuse, name the file, and leave every byte of it; gives the problem."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreCorrupt) as caught:
        SqliteStore(path)
    assert str(path) in str(caught.value)
    assert caught.value.next_step
    assert (path.read_bytes() if path.is_file() else None) == before
    return caught.value.problem


def test_zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))
    assert "first page was overwritten" in refused(path)


def test_garbage(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(50_000))
    assert "not an SQLite file" in refused(path)


def test_garbage_behind_a_right_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + random.Random(1).randbytes(50_000))
    assert "damaged" in refused(path)


def test_text_file(path: Path) -> None:
    path.write_text("not a ledger\n")
    assert "not an SQLite file" in refused(path)


@pytest.mark.parametrize("size", [1, 15, 99, 100, 4095, 4096, 8192, 40_000, -4096, -1])
def test_truncated(path: Path, size: int) -> None:
    os.truncate(path, size if size > 0 else path.stat().st_size + size)
    refused(path)


def test_emptied(path: Path) -> None:
    """Even after a clean close, when no sibling is left to tell."""
    os.truncate(path, 0)
    assert "empty where a ledger once was" in refused(path)


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_remains_without_their_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "ledger.db"
    (tmp_path / f"ledger.db{suffix}").write_bytes(b"left over")
    assert f"the file is gone, but {suffix}" in refused(path)
    assert not path.exists()
    path.touch()
    assert f"the file is empty, but {suffix}" in refused(path)


def test_an_empty_file_that_never_was_a_ledger_becomes_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch()
    store = SqliteStore(path)
    assert store.append(0, [b"a"]) == 1
    store.close()


def test_a_ledger_moved_away_on_purpose_makes_room_for_a_new_one(path: Path) -> None:
    """What the messages advise has to work."""
    path.rename(path.with_name("old.db"))
    store = SqliteStore(path)
    assert store.head() == 0
    store.close()


def test_a_foreign_database(tmp_path: Path) -> None:
    path = tmp_path / "cookies.db"
    change(path, "CREATE TABLE moz_cookies (id INTEGER)")
    assert "another program" in refused(path)


def test_a_directory(tmp_path: Path) -> None:
    assert "not a regular file" in refused(tmp_path)


def test_a_fifo(tmp_path: Path) -> None:
    """Refused, not waited for."""
    os.mkfifo(tmp_path / "ledger.db")
    assert "not a regular file" in refused(tmp_path / "ledger.db")


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM event WHERE seq = 150", "event 150 is missing"),
        (
            "DELETE FROM event WHERE seq > 190",
            "the head is event 200, but the last event there is 190",
        ),
        ("DELETE FROM event", "all events up to the head, 200, are missing"),
        ("UPDATE event SET data = CAST(data || ' ' AS BLOB) WHERE seq = 150", "event 150 is not"),
        ("UPDATE event SET sum = zeroblob(8) WHERE seq = 150", "event 150 is not"),
        ("UPDATE event SET seq = 201 WHERE seq = 200", "the last event there is 201"),
        (
            "INSERT INTO event SELECT 201, data, sum FROM event WHERE seq = 200",
            "event there is 201",
        ),
        ("UPDATE bound SET seq = 199 WHERE name = 'head'", "the last event there is 200"),
        ("UPDATE bound SET sum = zeroblob(8) WHERE name = 'head'", "event 200, the head, is not"),
        ("DELETE FROM bound WHERE name = 'head'", "the mark of the log's head is missing"),
        ("DROP TABLE snapshot", "missing or foreign: snapshot"),
        ("CREATE TABLE more (x)", "missing or foreign: more"),
        (
            "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM event WHERE seq = 1; END",
            "missing or foreign: t",
        ),
    ],
)
def test_a_careless_hand(path: Path, statement: str, problem: str) -> None:
    change(path, statement)
    assert problem in refused(path)


def test_swapped_rows(path: Path) -> None:
    """Each row is whole, each sum stands with its data: only the chain can tell."""
    change(
        path,
        "UPDATE event SET seq = -1 WHERE seq = 150",
        "UPDATE event SET seq = 150 WHERE seq = 151",
        "UPDATE event SET seq = 151 WHERE seq = -1",
    )
    assert "event 150 is not" in refused(path)


def test_damage_before_the_snapshot_is_found_when_read(path: Path) -> None:
    """Opening does not read the whole log; reading checks whatever it returns."""
    change(path, "UPDATE event SET data = x'00' WHERE seq = 42", "DELETE FROM event WHERE seq = 60")
    store = SqliteStore(path)
    assert store.read(0, 41)[-1] == Entry(41, event(41))
    with pytest.raises(StoreCorrupt, match="event 42 is not the one that was written"):
        store.read(41, 1)
    with pytest.raises(StoreCorrupt, match="event 60 is missing"):
        store.read(58, 10)
    with pytest.raises(StoreCorrupt, match="event 60 is missing"):
        store.read(60, 10)
    assert store.read(100, 1) == [Entry(101, event(101))]
    found = store.verify()
    assert found.events == 0
    assert found.problems == ("event 42 is not the one that was written",)
    store.close()


def test_damage_while_open_stops_appends(path: Path) -> None:
    store = SqliteStore(path)
    change(path, "DELETE FROM event WHERE seq = 200")
    with pytest.raises(StoreCorrupt, match="the last event there is 199"):
        store.append(200, [b"x"])
    with pytest.raises(StoreCorrupt):
        store.head()
    store.close()


def test_a_damaged_snapshot_is_passed_over(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A snapshot is a shortcut; the one before it serves, or none and the whole log."""
    store = SqliteStore(path)
    store.save_snapshot(Snapshot(150, b"state at 150"))
    store.close()
    change(path, "UPDATE snapshot SET data = x'00' WHERE seq = 150")
    store = SqliteStore(path)
    assert store.load_snapshot() == Snapshot(100, b"state at 100")
    assert store.verify().problems == ("the snapshot at event 150 is not the one that was written",)
    store.close()
    change(path, "UPDATE snapshot SET event_sum = zeroblob(8) WHERE seq = 100")
    store = SqliteStore(path)
    assert store.load_snapshot() is None
    assert len(store.read(0, 1_000)) == EVENTS
    store.close()
    assert "passing over a snapshot" in caplog.text


def test_a_sound_file_verifies(path: Path) -> None:
    store = SqliteStore(path)
    found = store.verify()
    assert (found.events, found.snapshots, found.problems) == (EVENTS, 1, ())
    store.close()


def test_the_file_taken_away_while_in_use(path: Path) -> None:
    """SQLite alone would acknowledge appends into a file that has no name any more."""
    store = SqliteStore(path)
    path.rename(path.with_name("moved.db"))
    with pytest.raises(StoreUnavailable, match="moved, removed or replaced"):
        store.append(EVENTS, [b"x"])
    path.with_name("moved.db").rename(path)
    assert store.append(EVENTS, [b"x"]) == EVENTS + 1
    store.close()


def crashed_copy(path: Path, target: Path) -> Path:
    """The files as a kill -9 would leave them: the last appends are in the WAL alone."""
    store = SqliteStore(path)
    store.append(EVENTS, [event(EVENTS + 1)])
    store.append(EVENTS + 1, [event(EVENTS + 2)])
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{target}{suffix}")
    store.close()
    return target


def test_a_refused_file_keeps_its_wal(path: Path, tmp_path: Path) -> None:
    """What is in the WAL may be what saves the log: refusing must not move or drop it."""
    copy = crashed_copy(path, tmp_path / "copy.db")
    wal = tmp_path / "copy.db-wal"
    raw = bytearray(copy.read_bytes())
    raw[-6_000:] = bytes(6_000)
    copy.write_bytes(raw)
    before = wal.read_bytes()
    assert refused(copy)
    assert wal.read_bytes() == before


def test_a_torn_wal_ends_at_its_last_whole_append(path: Path, tmp_path: Path) -> None:
    """A torn last frame is an append that nobody was told of; the ones before are there."""
    copy = crashed_copy(path, tmp_path / "copy.db")
    wal = tmp_path / "copy.db-wal"
    os.truncate(wal, wal.stat().st_size - 1)
    store = SqliteStore(copy)
    assert store.head() == EVENTS + 1
    assert store.read(EVENTS, 10) == [Entry(EVENTS + 1, event(EVENTS + 1))]
    assert store.verify().problems == ()
    store.close()


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.1, 0.4, 0.7])
def test_damage_inside_a_wal_is_not_taken_for_its_end(
    path: Path, tmp_path: Path, share: float
) -> None:
    """SQLite by itself would stop there, and forget acknowledged appends without a word."""
    store = SqliteStore(path)
    for seq in range(EVENTS, EVENTS + 20):
        store.append(seq, [event(seq + 1)])
    copy, wal = tmp_path / "copy.db", tmp_path / "copy.db-wal"
    shutil.copy(path, copy)
    raw = bytearray(path.with_name("ledger.db-wal").read_bytes())
    store.close()
    raw[int(len(raw) * share)] ^= 0x10
    wal.write_bytes(raw)
    assert "-wal" in refused(copy)
    assert wal.read_bytes() == raw


def test_a_wal_of_an_earlier_round_is_no_damage(path: Path, tmp_path: Path) -> None:
    """After a checkpoint SQLite writes the WAL from its start again; old frames follow the new."""
    store = SqliteStore(path)
    for seq in range(EVENTS, EVENTS + 20):
        store.append(seq, [event(seq + 1)])
    store._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    store.append(EVENTS + 20, [event(EVENTS + 21)])
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", tmp_path / f"copy.db{suffix}")
    store.close()
    store = SqliteStore(tmp_path / "copy.db")
    assert store.head() == EVENTS + 21
    store.close()


def unclean(path: Path, target: Path) -> Path:
    """All that a kill -9 leaves, after two more appends."""
    crashed_copy(path, target)
    shutil.copy(f"{path}.head", f"{target}.head")
    return target


@pytest.mark.parametrize("kept_bytes", [None, 0, -1, 32 + 24 + 4096, 5_000])
def test_a_wal_removed_or_cut_is_missed(path: Path, tmp_path: Path, kept_bytes: int | None) -> None:
    """What is left is a sound log; only its witness knows that it went on."""
    copy = unclean(path, tmp_path / "copy.db")
    wal = tmp_path / "copy.db-wal"
    if kept_bytes is None:
        wal.unlink()
    else:
        os.truncate(wal, kept_bytes if kept_bytes >= 0 else wal.stat().st_size + kept_bytes)
    assert f"but {EVENTS + 2} was acknowledged" in refused(copy)


def test_an_older_copy_put_back_is_noticed_and_can_be_accepted(path: Path, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    shutil.copy(path, older)
    store = SqliteStore(path)
    store.append(EVENTS, [b"x"])
    store.close()
    shutil.copy(older, path)
    assert f"the log ends at event {EVENTS}, but {EVENTS + 1} was acknowledged" in refused(path)
    path.with_name("ledger.db.head").unlink()
    store = SqliteStore(path)
    assert store.append(EVENTS, [b"y"]) == EVENTS + 1
    store.close()


def test_another_log_of_the_same_length_is_noticed(path: Path, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path / "other.db")
    other.append(0, [b"other"] * (EVENTS + 5))
    other.close()
    shutil.copy(tmp_path / "other.db", path)
    assert f"event {EVENTS} is not the one that was acknowledged" in refused(path)


@pytest.mark.parametrize("record", [b"", b"garbage", b"\0" * 38, b"x" * 99])
def test_an_illegible_witness_stops_nobody(path: Path, record: bytes) -> None:
    """It may be lost in a power cut; the log itself is whole."""
    path.with_name("ledger.db.head").write_bytes(record)
    store = SqliteStore(path)
    assert store.append(EVENTS, [b"x"]) == EVENTS + 1
    store.close()
    assert path.with_name("ledger.db.head").read_bytes().startswith(b"%020d " % (EVENTS + 1))
    os.truncate(path, 4_096 * 3)
    refused(path)


def test_every_message_names_the_file_and_a_next_step(path: Path) -> None:
    for error in (StoreCorrupt(str(path), "damaged"), StoreUnavailable(str(path), "busy", "retry")):
        assert isinstance(error, StoreError)
        assert str(error) == f"{path}: {error.problem}: {error.next_step}"
        assert "\n" not in str(error)
