"""The tables of a ledger file, and the way from every released schema version to this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.store.errors import SchemaTooNew, SchemaTooOld, StoreCorrupt

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = int.from_bytes(b"LEAS", "big")
"""Bytes 68..71 of the file: whose SQLite file this is (``PRAGMA application_id``)."""

_VERSION_1 = (
    # One row per event. Numbers are the primary key, so an append goes to the end of one B-tree and
    # a read is a range of it. STRICT: a column holds its type or the insert fails.
    """
    CREATE TABLE event (
        seq  INTEGER PRIMARY KEY,  -- 1, 2, 3, ... with no gap
        data BLOB NOT NULL,        -- the event, opaque to the store
        sum  BLOB NOT NULL         -- chain.event_sum(sum of the event before, seq, data)
    ) STRICT
    """,
    # Where the log begins and ends. It makes a cut tail visible, which a chain alone cannot.
    """
    CREATE TABLE bound (
        name TEXT PRIMARY KEY,     -- 'base': the log starts after it; 'head': its last event
        seq  INTEGER NOT NULL,     -- that event's number; a base of 0 means nothing was dropped
        sum  BLOB NOT NULL         -- that event's sum
    ) STRICT, WITHOUT ROWID
    """,
    # The newest few states. In a table of its own, so that reading events never touches its pages.
    """
    CREATE TABLE snapshot (
        seq       INTEGER PRIMARY KEY,  -- the state after this event
        data      BLOB NOT NULL,        -- the state, opaque to the store
        event_sum BLOB NOT NULL,        -- the sum of event seq: ties the snapshot to this very log
        sum       BLOB NOT NULL         -- chain.snapshot_sum(event_sum, seq, data)
    ) STRICT
    """,
    # chain.ORIGIN, written out: a released migration never changes.
    "INSERT INTO bound (name, seq, sum) VALUES ('base', 0, zeroblob(8)), ('head', 0, zeroblob(8))",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1,)
"""``MIGRATIONS[n]`` leads from version n to n + 1, in one transaction. Released ones never change."""

OLDEST_VERSION = 1
TABLES = frozenset({b"event", b"bound", b"snapshot"})


def supported_version() -> int:
    """The schema version this code reads and writes."""
    return len(MIGRATIONS)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make an empty database a ledger of the current version."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    _run_migrations(connection, 0)


def check_version(connection: sqlite3.Connection, path: str, *, may_migrate: bool) -> bool:
    """Refuse a file of another version; does it need ``migrate``?

    Raises:
        SchemaTooNew: a newer leasefs wrote it.
        SchemaTooOld: too old to migrate, or old and this process does not own it.
    """
    found = _found_version(connection)
    if found > supported_version():
        raise SchemaTooNew(path, found, supported_version())
    if found < OLDEST_VERSION:
        raise SchemaTooOld(path, found, OLDEST_VERSION)
    if found < supported_version() and not may_migrate:
        raise SchemaTooOld(path, found, supported_version())
    return found < supported_version()


def migrate(connection: sqlite3.Connection) -> None:
    """Bring an older ledger to the current version; each step is whole or not at all."""
    _run_migrations(connection, _found_version(connection))


def check_tables(connection: sqlite3.Connection, path: str) -> None:
    """Refuse missing tables, and foreign ones: a trigger would change what an append does.

    Raises:
        StoreCorrupt: the schema is not a ledger's.
    """
    rows = connection.execute(
        "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    names = {row[0] for row in rows}
    if names != TABLES:
        odd = ", ".join(sorted(_shown(name) for name in names ^ TABLES))
        raise StoreCorrupt(path, f"its schema is not a ledger's (missing or foreign: {odd})")


def _found_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _shown(name: object) -> str:
    return name.decode(errors="backslashreplace") if isinstance(name, bytes) else repr(name)


def _run_migrations(connection: sqlite3.Connection, found: int) -> None:
    for version, statements in enumerate(MIGRATIONS[found:], start=found + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
