"""Copies of a ledger's file: made while it is served, and put in its place when nobody serves it.

A copy is of one moment: the connection it is read from stays in one read transaction, so SQLite need not begin again when somebody
appends meanwhile. It is a single file, in rollback mode, and whoever has it needs nothing beside it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.store import sqlite_file, sqlite_log
from leasefs.store.chain import event_sum
from leasefs.store.errors import StoreCorrupt, StoreError, StoreFull
from leasefs.store.lock import LedgerLock
from leasefs.store.sqlite_errors import translated
from leasefs.store.sqlite_reading import ReadOnlyStore
from leasefs.store.syncing import sync
from leasefs.store.witness import SUFFIX as WITNESS_SUFFIX
from leasefs.store.witness import HeadWitness

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.store.sqlite_log import Bound

PAGES_AT_ONCE = 256
_PART = ".part"
_BUILDING = ".restoring"
_SIBLINGS = ("-wal", WITNESS_SUFFIX)


@dataclass(frozen=True, slots=True)
class Copied:
    """What is in a backup: events after `base` up to `head`, and its size."""

    base: int
    head: int
    size_bytes: int


def back_up(source: str, target: str, told: Callable[[int, int], None]) -> Copied:
    """Copy the ledger at `source` to a new file `target` (0600), checked whole before it has its name.

    `told` hears how many pages of how many are done.

    Raises:
        FileExistsError: there is something at `target`.
        StoreCorrupt: the ledger is damaged, and so is the copy.
        StoreError, OSError: it cannot be read or written.
    """
    if os.path.lexists(target):
        raise FileExistsError(target)
    part = target + _PART
    with ExitStack() as undo, translated(target):
        _create(part)
        undo.callback(_remove, part)
        _copy(source, part, told)
        copied = _checked(part)
        os.link(part, target)  # unlike rename, never over something that came meanwhile
        sync(os.path.dirname(os.path.abspath(target)))
    return copied


def _create(path: str) -> None:
    _remove(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def _copy(source: str, target: str, told: Callable[[int, int], None]) -> None:
    """Copy the database, in bites, telling of each."""
    with closing(ReadOnlyStore(source)) as store:

        def progress(_status: int, remaining: int, total: int) -> None:
            told(total - remaining, total)

        with closing(sqlite3.connect(target, isolation_level=None)) as copy:
            try:
                store.copy_to(copy, PAGES_AT_ONCE, progress)
            except StoreFull as error:  # room is only needed where it goes to
                raise StoreFull(target) from error
            copy.execute("PRAGMA journal_mode = DELETE")
    sync(target)


def _checked(path: str) -> Copied:
    with closing(ReadOnlyStore(path)) as store:
        problems = store.verify().problems
        if problems:
            raise StoreCorrupt(path, problems[0])
        return Copied(store.base(), store.head(), os.stat(path).st_size)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is at a ledger's place now. `head` is the last number known to have been handed out there, 0 if none is.

    `sound` says that it is whole as far as anybody can tell.
    """

    there: bool
    head: int = 0
    sound: bool = False


def look_at(path: str) -> Standing:
    """Look at the ledger at `path`, of which the caller has the lock. Raises OSError."""
    if not any(os.path.lexists(path + suffix) for suffix in ("", *_SIBLINGS)):
        return Standing(there=False)
    with closing(HeadWitness(path)) as witness:
        seen = witness.recorded()
    head = seen.seq if seen else 0
    try:
        with closing(ReadOnlyStore(path)) as store:
            found = store.head()
            sound = found >= head and not store.verify().problems
            return Standing(True, max(head, found), sound)
    except StoreError:
        return Standing(True, head, sound=False)


class Replacing:
    """A backup on its way to a ledger's place, whose lock is held until the block ends."""

    def __init__(self, path: str) -> None:
        """Take the lock.

        Raises:
            StoreLocked: the ledger there is being served.
            OSError: the directory cannot be used.
        """
        self.path = os.path.realpath(path)
        self._building = self.path + _BUILDING
        self._held = ExitStack()
        self._held.callback(LedgerLock(self.path).release)

    def copy(self, backup: str, told: Callable[[int, int], None]) -> Copied:
        """Bring a checked copy of the backup beside the ledger. Raises as `back_up`."""
        with translated(backup):
            _create(self._building)
            _copy(backup, self._building, told)
            return _checked(self._building)

    def reading(self) -> ReadOnlyStore:
        """The copy, to be read; the caller closes it."""
        return ReadOnlyStore(self._building)

    def append(self, seq: int, data: bytes) -> None:
        """Append one event to the copy, with a number beyond its head."""
        with (
            translated(self._building),
            closing(sqlite_file.connect(self._building, for_writing=True)) as copy,
            sqlite_log.transaction(copy, "BEGIN IMMEDIATE"),
        ):
            head = sqlite_log.read_head(copy, self._building)
            if seq <= head.seq:
                raise ValueError(f"append({seq}), head is {head.seq}")
            new = event_sum(head.sum, seq, data)
            copy.execute("INSERT INTO event (seq, data, sum) VALUES (?, ?, ?)", (seq, data, new))
            copy.execute("UPDATE bound SET seq = ?, sum = ? WHERE name = 'head'", (seq, new))
            copy.execute("COMMIT")

    def put_in_place(self, aside: str) -> None:
        """Put the copy where the ledger is to be; what was there stays, under the name `aside`.

        At no moment is there no file, and at none two that fit together wrongly: whoever would serve what a crash leaves half
        way is refused by the witness, and this can be done again.
        """
        with translated(self.path):
            head = self._head_of_copy()
            sync(self._building)
            self._copy_aside(aside)
            # From here on what is still in place does not reach as far as its witness says, and is refused.
            with closing(HeadWitness(self.path)) as witness:
                witness.record(head)
            sync(self.path + WITNESS_SUFFIX)
            self._move_aside(aside)
            os.rename(self._building, self.path)
            sync(os.path.dirname(self.path))

    def _head_of_copy(self) -> Bound:
        with (
            closing(sqlite_file.connect(self._building, for_writing=False)) as copy,
            sqlite_log.transaction(copy),
        ):
            return sqlite_log.read_head(copy, self._building)

    def _copy_aside(self, aside: str) -> None:
        with suppress(FileNotFoundError):
            os.link(self.path, aside, follow_symlinks=False)
        with suppress(FileNotFoundError):
            # Not as a link: the one that stays is written over.
            shutil.copyfile(self.path + WITNESS_SUFFIX, aside + WITNESS_SUFFIX)
            os.chmod(aside + WITNESS_SUFFIX, 0o600)

    def _move_aside(self, aside: str) -> None:
        for suffix in ("-wal", "-journal"):
            with suppress(FileNotFoundError):
                os.rename(self.path + suffix, aside + suffix)
        with suppress(FileNotFoundError):
            os.unlink(self.path + "-shm")

    def close(self) -> None:
        """Let go of the lock; what was begun and not put in place is removed."""
        _remove(self._building)
        self._held.close()
