"""Reading a ledger's file: what its owner and those beside it have in common, and a store that does nothing else."""

from __future__ import annotations

import os
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NoReturn

from leasefs.store import sqlite_drop, sqlite_file, sqlite_log
from leasefs.store.errors import StoreClosed, StoreCorrupt, StoreUnavailable
from leasefs.store.sqlite_errors import translated
from leasefs.store.sqlite_schema import check_tables, check_version
from leasefs.store.sqlite_verify import Verification, verify

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from leasefs.store.port import Entry, Snapshot


class SqliteReading:
    """The half of a ``Store`` in one file that only reads, on one connection behind one lock."""

    _path: str
    _reader: sqlite3.Connection
    _read_lock: threading.Lock
    _closed: bool

    @property
    def path(self) -> str:
        """The real path of the ledger's file."""
        return self._path

    def read(self, after_seq: int, limit: int) -> list[Entry]:
        """See ``Store.read``."""
        if after_seq < 0 or limit < 1:
            raise ValueError(f"read(after_seq={after_seq}, limit={limit})")
        with self._read_lock, self._reading():
            head = sqlite_log.read_head(self._reader, self._path)
            if after_seq >= head.seq:
                return []
            after = sqlite_log.start_after(self._reader, self._path, after_seq)
            found = list(sqlite_log.read_events(self._reader, self._path, after, limit))
            last_seq = found[-1].seq if found else after_seq
            if len(found) < limit and last_seq != head.seq:
                raise StoreCorrupt(self._path, f"event {last_seq + 1} is missing")
            return found

    def head(self) -> int:
        """See ``Store.head``."""
        with self._read_lock, self._reading():
            return sqlite_log.read_head(self._reader, self._path).seq

    def base(self) -> int:
        """See ``Store.base``."""
        with self._read_lock, self._reading():
            return sqlite_log.read_base(self._reader, self._path).seq

    def load_snapshot(self, upto_seq: int | None = None) -> Snapshot | None:
        """See ``Store.load_snapshot``. A damaged one is logged and passed over."""
        with self._read_lock, self._reading():
            return sqlite_log.newest_snapshot(self._reader, self._path, upto_seq)

    def snapshots(self) -> list[int]:
        """See ``Store.snapshots``."""
        with self._read_lock, self._reading():
            return sqlite_log.snapshot_seqs(self._reader)[::-1]

    def size_bytes(self) -> int:
        """See ``Store.size_bytes``."""
        with self._read_lock, self._reading():
            return sqlite_drop.used_bytes(self._reader)

    def verify(self) -> Verification:
        """Check the whole file: every event, every snapshot, SQLite's own structure.

        Reads all of it, on a connection of its own, so that appends and reads go on meanwhile.

        Raises:
            StoreUnavailable: the disk refused; damage is reported, not raised.
            StoreClosed: after ``close``.
        """
        if self._closed:
            raise StoreClosed
        with translated(self._path), closing(self._another()) as connection:
            return verify(connection, self._path)

    def copy_to(
        self,
        target: sqlite3.Connection,
        pages: int,
        progress: Callable[[int, int, int], None],
    ) -> None:
        """Copy all of it as of one moment, so many pages at once; `progress` is as in ``sqlite3.Connection.backup``."""
        with (
            translated(self._path),
            closing(self._another()) as connection,
            sqlite_log.transaction(connection),
        ):
            sqlite_log.read_head(connection, self._path)  # the moment
            connection.backup(target, pages=pages, progress=progress)

    def _another(self) -> sqlite3.Connection:
        """One more connection for reading, which the caller closes."""
        return sqlite_file.connect(self._path, for_writing=False)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        if self._closed:
            raise StoreClosed
        with translated(self._path), sqlite_log.transaction(self._reader):
            yield


class ReadOnlyStore(SqliteReading):
    """A ``Store`` of which nothing can be changed: a backup, a ledger that is stopped, or one that is being served.

    It takes no lock, creates nothing that stays, and can be read where nothing can be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the ledger at ``path``.

        Raises:
            StoreMissing: there is none.
            SchemaTooNew, SchemaTooOld: another leasefs wrote it.
            StoreCorrupt: not a ledger, or its first pages are damaged.
            StoreUnavailable: the system refused.
        """
        self._path = os.path.realpath(path)
        self._read_lock = threading.Lock()
        self._closed = False
        with translated(self._path):
            sqlite_file.require_ledger(self._path)
            self._reader = self._another()
            try:
                check_version(self._reader, self._path, may_migrate=False)
                check_tables(self._reader, self._path)
            except BaseException:
                self._reader.close()
                raise

    def append(self, after_seq: int, data: Sequence[bytes]) -> int:
        """Never."""
        self._refuse()

    def watch(self, after_seq: int, timeout_s: float) -> int:
        """The head, at once: nobody tells of what others append."""
        return self.head()

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Never."""
        self._refuse()

    def drop(self, upto_seq: int, limit: int) -> int:
        """Never."""
        self._refuse()

    def close(self) -> None:
        """See ``Store.close``."""
        with self._read_lock, translated(self._path):
            self._closed = True
            self._reader.close()

    def _another(self) -> sqlite3.Connection:
        # Where there is no WAL nobody serves it: the file is all there is, and reading it needs nothing beside it. Should
        # somebody begin to in this very moment, the sums tell that what is read does not fit together.
        alone = not os.path.lexists(self._path + "-wal")
        return sqlite_file.connect(self._path, for_writing=False, immutable=alone)

    def _refuse(self) -> NoReturn:
        raise StoreUnavailable(
            self._path, "it was opened for reading only", "serve it to change anything"
        )
