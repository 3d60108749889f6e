"""The ledger's file before SQLite gets it: looked at, created once, never reset.

SQLite takes an empty file for an empty database and a stray ``-journal`` for work to undo. So this
module looks first, and hands over only what carries a ledger's own mark. A new ledger is built whole
under another name and linked into place, so a file under the ledger's name is never half made.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import quote

from leasefs.store.errors import StoreCorrupt, StoreMissing, StoreUnavailable
from leasefs.store.sqlite_schema import APPLICATION_ID, create_tables
from leasefs.store.syncing import sync
from leasefs.store.witness import SUFFIX as WITNESS_SUFFIX

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_SIBLINGS = ("-wal", "-shm", "-journal")


class Identity(NamedTuple):
    """Which file stands under a name: a moved or replaced one is another."""

    device: int
    inode: int


def identity(path: str) -> Identity | None:
    """What stands at ``path`` now, or None."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return Identity(found.st_dev, found.st_ino)


def require_ledger(path: str) -> None:
    """Check that a ledger stands at ``path``, from its header alone.

    Raises:
        StoreMissing: nothing there.
        StoreCorrupt: something else there, or the remains of a ledger.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        _refuse_remains(path, "the file is gone")
        raise StoreMissing(path) from None
    if not stat.S_ISREG(found.st_mode):
        raise StoreCorrupt(path, "not a regular file", "give the ledger another path")
    if found.st_size == 0:
        raise StoreCorrupt(path, "the file is empty, a ledger never is")
    _check_header(path)


def prepare(path: str, *, owned_before: bool) -> None:
    """Make sure that a ledger stands at ``path``, creating it if none ever did; the caller holds the lock.

    An empty file counts as none if nobody has owned a ledger there and no sibling remains.

    Raises:
        StoreCorrupt: see ``require_ledger``; nothing was touched.
    """
    found = identity(path)
    if found is None:
        _refuse_remains(path, "the file is gone")
        _create(path)
    elif os.stat(path).st_size == 0 and stat.S_ISREG(os.stat(path).st_mode):
        _refuse_remains(path, "the file is empty")
        if owned_before:
            raise StoreCorrupt(path, "the file is empty where a ledger once was")
        _create(path)
    require_ledger(path)


def connect(path: str, *, for_writing: bool, immutable: bool = False) -> sqlite3.Connection:
    """A connection set up for a ledger: WAL, every commit synced, nothing created, bytes for text.

    `immutable` promises that nobody writes the file: then no lock and no index of a WAL is needed to read it.

    Raises:
        StoreUnavailable: the file system cannot hold a WAL.
    """
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode={'rw' if for_writing else 'ro'}"
        + "&immutable=1" * immutable,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=32,
    )
    try:
        connection.text_factory = bytes  # a damaged text must not fail in a decoder
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        if for_writing:
            _use_wal(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 67108864")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, path: str) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != b"wal":
        raise StoreUnavailable(
            path, "this file system cannot hold a WAL", "put the ledger on a local disk"
        )


def _refuse_remains(path: str, problem: str) -> None:
    left = [suffix for suffix in _SIBLINGS if os.path.lexists(path + suffix)]
    if left:
        raise StoreCorrupt(path, f"{problem}, but {' and '.join(left)} of a ledger remain")


def _check_header(path: str) -> None:
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreCorrupt(path, "not an SQLite file, or its first page was overwritten")
    found = int.from_bytes(header[68:72], "big")
    if found != APPLICATION_ID:
        raise StoreCorrupt(
            path,
            f"an SQLite file of another program (application id {found:#x})",
            "give the ledger another path",
        )


def _create(path: str) -> None:
    # The witness of a log that was moved away has nothing to say about the new one.
    with suppress(FileNotFoundError):
        os.unlink(path + WITNESS_SUFFIX)
    building = path + ".creating"
    for suffix in (
        "",
        *_SIBLINGS,
    ):  # what a crash of an earlier creation left; the lock makes it ours
        with suppress(FileNotFoundError):
            os.unlink(building + suffix)
    os.close(os.open(building, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(building, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        # Only possible before there is a table: what is dropped later can be given back bit by bit.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        create_tables(connection)
        connection.execute("PRAGMA journal_mode = WAL")
    sync(building)
    if identity(path) is None:
        os.link(building, path)  # unlike rename, never over something that came meanwhile
        os.unlink(building)
    else:
        os.rename(building, path)
    sync(os.path.dirname(path))
