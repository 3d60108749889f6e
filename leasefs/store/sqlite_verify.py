"""Checking a whole ledger file, for ``doctor`` and for the doubtful."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from leasefs.store import sqlite_log
from leasefs.store.errors import StoreCorrupt
from leasefs.store.sqlite_errors import is_damage

if TYPE_CHECKING:
    from collections.abc import Callable

_SQLITE_PROBLEMS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Verification:
    """What a whole check found.

    Attributes:
        events: how many events were read and found right, before the first wrong one if any.
        snapshots: how many snapshots were found right.
        problems: one line each for people; empty if all is well.
    """

    events: int
    snapshots: int
    problems: tuple[str, ...]


def verify(connection: sqlite3.Connection, path: str) -> Verification:
    """Check structure, chain and snapshots as of one moment.

    Raises:
        sqlite3.Error: the disk refused; damage becomes a problem instead.
    """
    problems: list[str] = []
    with sqlite_log.transaction(connection):
        _noting(problems, lambda: _check_structure(connection, problems))
        events = _noting(problems, lambda: _check_events(connection, path)) or 0
        snapshots = _noting(problems, lambda: _check_snapshots(connection, path, problems)) or 0
    return Verification(events, snapshots, tuple(problems))


def _noting(problems: list[str], check: Callable[[], int]) -> int | None:
    try:
        return check()
    except StoreCorrupt as error:
        problems.append(error.problem)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        problems.append(f"SQLite finds it damaged ({error})")
    return None


def _check_structure(connection: sqlite3.Connection, problems: list[str]) -> int:
    rows = connection.execute(f"PRAGMA integrity_check({_SQLITE_PROBLEMS_SHOWN})").fetchall()
    found = [str(row[0], "utf-8", "backslashreplace") for row in rows]
    if found == ["ok"]:
        return 0
    problems.extend(f"SQLite: {line}" for line in found)
    return len(found)


def _check_events(connection: sqlite3.Connection, path: str) -> int:
    return sqlite_log.check_tail(connection, path, sqlite_log.read_base(connection, path))


def _check_snapshots(connection: sqlite3.Connection, path: str, problems: list[str]) -> int:
    right = 0
    for seq in sqlite_log.snapshot_seqs(connection):
        if _noting(problems, partial(_check_snapshot, connection, path, seq)) is not None:
            right += 1
    return right


def _check_snapshot(connection: sqlite3.Connection, path: str, seq: int) -> int:
    return sqlite_log.read_snapshot(connection, path, seq).seq
