"""Dropping old events from a ledger's file, one short transaction at a time.

Events and the mark of the beginning change together, so after a crash at any point the log begins where it says.
Freed pages are used again by what is appended later. A file made by this leasefs also gives them back, as long as more than a
quarter of it is free (SQLite's incremental vacuum); one made before does when it is compacted while no ledger serves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.store.port import check_drop, worth_keeping
from leasefs.store.sqlite_log import read_base, read_bound, snapshot_seqs

if TYPE_CHECKING:
    import sqlite3

_FREE_PART = 4
_PAGES_AT_ONCE = 256
_INCREMENTAL = 2


def drop_events(connection: sqlite3.Connection, path: str, upto_seq: int, limit: int) -> int:
    """Drop the oldest events, in the caller's transaction; the new base.

    Raises:
        ValueError: see ``check_drop``.
        StoreCorrupt: the log's beginning is damaged.
    """
    check_drop(snapshot_seqs(connection), upto_seq, limit)
    base = read_base(connection, path)
    row = connection.execute(
        "SELECT max(seq) FROM (SELECT seq FROM event WHERE seq <= ? ORDER BY seq LIMIT ?)",
        (upto_seq, limit),
    ).fetchone()
    if row[0] is None:
        return base.seq
    new = read_bound(connection, path, row[0])
    connection.execute("DELETE FROM event WHERE seq <= ?", (new.seq,))
    connection.execute("DELETE FROM snapshot WHERE seq < ?", (new.seq,))
    connection.execute("UPDATE bound SET seq = ?, sum = ? WHERE name = 'base'", (new.seq, new.sum))
    return new.seq


def thin_snapshots(connection: sqlite3.Connection) -> None:
    """Drop the snapshots that are not worth keeping any more, in the caller's transaction."""
    seqs = snapshot_seqs(connection)
    useless = [(seq,) for seq in seqs if seq not in worth_keeping(seqs)]
    connection.executemany("DELETE FROM snapshot WHERE seq = ?", useless)


def give_back(connection: sqlite3.Connection) -> bool:
    """Give some free pages back to the file system, in a transaction of its own; whether there may be more to give."""
    pages, free = _number(connection, "page_count"), _number(connection, "freelist_count")
    # What must go so that of the rest a quarter is free.
    spare = (_FREE_PART * free - pages) // (_FREE_PART - 1)
    if spare <= 0 or _number(connection, "auto_vacuum") != _INCREMENTAL:
        return False
    # Each page is a step of its own, with a row of no columns, at which `execute` and `fetchall` stop.
    connection.executescript(f"PRAGMA incremental_vacuum({min(spare, _PAGES_AT_ONCE)})")
    return spare > _PAGES_AT_ONCE


def used_bytes(connection: sqlite3.Connection) -> int:
    """The bytes of all pages that hold something."""
    pages = _number(connection, "page_count") - _number(connection, "freelist_count")
    return pages * _number(connection, "page_size")


def rebuild(connection: sqlite3.Connection) -> None:
    """Write the file anew without free pages, such that it can give them back from now on. Nobody else may use it."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("VACUUM")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
