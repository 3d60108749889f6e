"""SQLite's and the system's errors, told in the store's words: one table, one place."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasefs.store.errors import StoreCorrupt, StoreFileError, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_PRIMARY = 0xFF  # the low byte of an extended result code, https://sqlite.org/rescode.html

_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_CORRUPT_EXTENDED = frozenset(
    {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_DATA}
)
_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})

_NEXT_STEPS = {
    sqlite3.SQLITE_IOERR: "check the disk and the kernel log, then retry",
    sqlite3.SQLITE_BUSY: "another process keeps it busy; find out which and retry",
    sqlite3.SQLITE_READONLY: "make the file and its directory writable for this user",
    sqlite3.SQLITE_PERM: "make the file and its directory writable for this user",
    sqlite3.SQLITE_CANTOPEN: "make the file and its directory readable and writable for this user",
}


@contextmanager
def translated(path: str, *, committing: bool = False) -> Iterator[None]:
    """Raise what SQLite or the system raises inside as a ``StoreFileError`` about ``path``.

    With ``committing``, an I/O error leaves open whether the transaction happened: the bytes may have
    reached the log although syncing them failed. The next append that succeeds writes over them, and
    so settles that it did not.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(path, error, committing=committing) from error
    except OSError as error:
        raise _from_system(path, error) from error


def is_damage(error: sqlite3.Error) -> bool:
    """Does SQLite say that the file itself is damaged?"""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & _PRIMARY in _CORRUPT or code in _CORRUPT_EXTENDED


def _from_sqlite(path: str, error: sqlite3.Error, *, committing: bool) -> StoreFileError:
    # Errors the Python module raises by itself carry no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    primary = code & _PRIMARY
    if is_damage(error):
        return StoreCorrupt(path, f"SQLite finds it damaged ({error})")
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return StoreCorrupt(path, f"its rows contradict each other ({error})")
    # The -shm file is grown by writing to it, and its failure has its own code.
    if primary == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreFull(path)
    uncertain = committing and primary == sqlite3.SQLITE_IOERR
    next_step = _NEXT_STEPS.get(primary, "see SQLite's message, then retry")
    name = getattr(error, "sqlite_errorname", "no code")
    return StoreUnavailable(
        path, f"{error} ({name})", next_step, happened=None if uncertain else False
    )


def _from_system(path: str, error: OSError) -> StoreFileError:
    if error.errno in _FULL_ERRNOS:
        return StoreFull(path)
    where = f" ({error.filename})" if error.filename not in {None, path} else ""
    return StoreUnavailable(
        path, f"{error.strerror}{where}", "check the path, its permissions and the disk"
    )
