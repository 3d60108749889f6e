"""Reading the ledger's tables, where nothing is believed before its sum was checked.

Every function wants a transaction around it, so that all it reads is of one moment.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from leasefs.store.chain import event_sum, snapshot_sum
from leasefs.store.errors import EventsDropped, StoreCorrupt
from leasefs.store.port import Entry, Snapshot
from leasefs.store.sqlite_errors import is_damage

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)

_HEAD = """
    SELECT bound.seq, bound.sum, event.sum, (SELECT max(seq) FROM event)
    FROM bound LEFT JOIN event ON event.seq = bound.seq WHERE bound.name = 'head'
"""
_EVENTS = "SELECT seq, data, sum FROM event WHERE seq > ? ORDER BY seq LIMIT ?"
_LAST_UP_TO = "SELECT seq, sum FROM event WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
_ALL_ROWS = -1


class Bound(NamedTuple):
    """A point of the log: an event's number and its sum."""

    seq: int
    sum: bytes


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN") -> Iterator[None]:
    """Run the block in a transaction that is rolled back, unless the block committed it itself."""
    connection.execute(begin)
    try:
        yield
    except BaseException as error:
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error as second:
                error.add_note(f"and rolling back failed: {second}")
        raise
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def read_head(connection: sqlite3.Connection, path: str) -> Bound:
    """The log's end, checked against the last event.

    Raises:
        StoreCorrupt: events were cut off or added behind our back.
    """
    row = connection.execute(_HEAD).fetchone()
    if row is None or not isinstance(row[0], int) or not isinstance(row[1], bytes):
        raise StoreCorrupt(path, "the mark of the log's head is missing or damaged")
    seq, head_sum, last_sum, last_seq = row
    if last_seq is None:
        if read_base(connection, path) != (seq, head_sum):
            raise StoreCorrupt(path, f"all events up to the head, {seq}, are missing")
    elif last_seq != seq:
        raise StoreCorrupt(path, f"the head is event {seq}, but the last event there is {last_seq}")
    elif last_sum != head_sum:
        raise StoreCorrupt(path, f"event {seq}, the head, is not the one that was written")
    return Bound(seq, head_sum)


def read_base(connection: sqlite3.Connection, path: str) -> Bound:
    """Where the log begins: the point before its first event.

    Raises:
        StoreCorrupt: the mark is missing or damaged.
    """
    row = connection.execute("SELECT seq, sum FROM bound WHERE name = 'base'").fetchone()
    if row is None or not isinstance(row[0], int) or not isinstance(row[1], bytes):
        raise StoreCorrupt(path, "the mark of the log's beginning is missing or damaged")
    return Bound(row[0], row[1])


def read_bound(connection: sqlite3.Connection, path: str, seq: int) -> Bound:
    """The point after event ``seq``, or the log's beginning.

    Raises:
        StoreCorrupt: that event is missing.
    """
    row = connection.execute("SELECT sum FROM event WHERE seq = ?", (seq,)).fetchone()
    if row is not None and isinstance(row[0], bytes):
        return Bound(seq, row[0])
    base = read_base(connection, path)
    if base.seq != seq:
        raise StoreCorrupt(path, f"event {seq} is missing")
    return base


def start_after(connection: sqlite3.Connection, path: str, seq: int) -> Bound:
    """The last point of the log at or before event ``seq``: another one only in the gap that a restored backup left.

    Raises:
        EventsDropped: the log begins later.
        StoreCorrupt: its beginning is damaged.
    """
    base = read_base(connection, path)
    if seq < base.seq:
        raise EventsDropped(seq, base.seq)
    row = connection.execute(_LAST_UP_TO, (seq,)).fetchone()
    if row is None:
        return base
    if not isinstance(row[1], bytes):
        raise StoreCorrupt(path, f"event {row[0]} is not the one that was written")
    return Bound(row[0], row[1])


def read_events(
    connection: sqlite3.Connection, path: str, after: Bound, limit: int = _ALL_ROWS
) -> Iterator[Entry]:
    """The events following ``after``, each checked against the chain.

    A number may be passed over where the chain says so: the sum of what follows a restored backup was made from that
    of the backup's last event, which no lost event can bring about.

    Raises:
        StoreCorrupt: one is missing or not as it was written.
    """
    seq, previous = after
    for found_seq, data, found_sum in connection.execute(_EVENTS, (seq, limit)):
        if not isinstance(data, bytes) or event_sum(previous, found_seq, data) != found_sum:
            if found_seq != seq + 1:
                raise StoreCorrupt(path, f"event {seq + 1} is missing, {found_seq} follows {seq}")
            raise StoreCorrupt(path, f"event {found_seq} is not the one that was written")
        seq, previous = found_seq, found_sum
        yield Entry(seq, data, found_sum)


def check_tail(connection: sqlite3.Connection, path: str, after: Bound) -> int:
    """Check every event from ``after`` to the head; how many there are.

    Raises:
        StoreCorrupt: one is missing or not as it was written.
    """
    head, count, last = read_head(connection, path), 0, after.seq
    for entry in read_events(connection, path, after):
        count, last = count + 1, entry.seq
    if last != head.seq:
        raise StoreCorrupt(path, f"events {last + 1} to {head.seq} are missing")
    return count


def check_witness(connection: sqlite3.Connection, path: str, witness: Bound) -> None:
    """Check that what was acknowledged last is still there.

    Raises:
        StoreCorrupt: the log lost its end, or is another log.
    """
    head, base = read_head(connection, path), read_base(connection, path)
    if witness.seq > head.seq:
        problem = f"the log ends at event {head.seq}, but {witness.seq} was acknowledged"
    elif base.seq <= witness.seq and read_bound(connection, path, witness.seq) != witness:
        problem = f"event {witness.seq} is not the one that was acknowledged"
    else:
        return
    raise StoreCorrupt(
        path,
        problem,
        f"bring back its -wal or a newer copy; to accept the loss, remove {path}.head"
        " (fencing tokens will then be given out again)",
    )


def snapshot_seqs(connection: sqlite3.Connection) -> list[int]:
    """Where snapshots were taken, newest first."""
    rows = connection.execute("SELECT seq FROM snapshot ORDER BY seq DESC").fetchall()
    return [int(row[0]) for row in rows]


def read_snapshot(connection: sqlite3.Connection, path: str, seq: int) -> Snapshot:
    """One snapshot, checked against its own sum and against the log.

    Raises:
        StoreCorrupt: damaged, or taken of another log.
    """
    row = connection.execute(
        "SELECT data, event_sum, sum FROM snapshot WHERE seq = ?", (seq,)
    ).fetchone()
    point = read_bound(connection, path, seq)
    if row is None or not isinstance(row[0], bytes):
        raise StoreCorrupt(path, f"the snapshot at event {seq} is damaged")
    data, taken_of, found_sum = row
    if taken_of != point.sum:
        raise StoreCorrupt(path, f"the snapshot at event {seq} was taken of another log")
    if snapshot_sum(point.sum, seq, data) != found_sum:
        raise StoreCorrupt(path, f"the snapshot at event {seq} is not the one that was written")
    return Snapshot(seq, data)


def newest_snapshot(
    connection: sqlite3.Connection, path: str, upto_seq: int | None = None
) -> Snapshot | None:
    """The newest intact snapshot; damaged ones are logged and passed over, for the events remain."""
    for seq in snapshot_seqs(connection):
        if upto_seq is not None and seq > upto_seq:
            continue
        try:
            return read_snapshot(connection, path, seq)
        except StoreCorrupt as error:
            _log.warning("passing over a snapshot: %s", error)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            _log.warning("passing over the snapshot at event %d of %s: %s", seq, path, error)
    return None
