"""The embedded engine: one SQLite file, WAL, every append synced before it returns.

Concurrency: two connections, each behind its own lock, one for writing and one for reading (WAL lets
them work at once). ``_changed`` guards ``_known_head`` and ``_closed`` and wakes watchers. Lock order:
``_changed``, then ``_write_lock``, then ``_read_lock``; an append takes ``_changed`` only after it let
go of ``_write_lock``. SQLite's own locks order the appends of different processes, and the head is
compared inside ``BEGIN IMMEDIATE``, so of two appends after one head exactly one wins.

Crash cases: killed before the COMMIT returns, the events are there whole or not at all, and nobody was
told; after, they are there. Killed while the file is created: see ``sqlite_file``.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from leasefs.store import sqlite_drop, sqlite_file, sqlite_log
from leasefs.store.chain import event_sum, snapshot_sum
from leasefs.store.errors import SequenceConflict, StoreClosed, StoreUnavailable
from leasefs.store.lock import LedgerLock
from leasefs.store.sqlite_errors import translated
from leasefs.store.sqlite_log import Bound
from leasefs.store.sqlite_reading import SqliteReading
from leasefs.store.sqlite_schema import check_tables, check_version, migrate
from leasefs.store.sqlite_wal import check_wal
from leasefs.store.waiting import RealWaiter, Waiter
from leasefs.store.witness import HeadWitness

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from leasefs.store.port import Snapshot

POLL_INTERVAL_S = 0.05
"""How often ``watch`` looks for the appends of other processes, when there may be any."""


class SqliteStore(SqliteReading):
    """A ``Store`` in one file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        exclusive: bool = True,
        waiter: Waiter | None = None,
        poll_interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        """Open the ledger at ``path`` and check its end.

        With ``exclusive`` (the ledger's owner) it takes the lock, creates the file (0600) and its
        directory (0700) if there are none, and migrates an older schema. Without, it opens what is
        there, beside an owner; such a store's appends are still ordered by sequence number.

        Raises:
            StoreLocked: exclusive, and another process owns it.
            StoreMissing: not exclusive, and there is no ledger.
            SchemaTooNew, SchemaTooOld: another leasefs wrote it.
            StoreCorrupt: damaged, or not a ledger.
            StoreUnavailable, StoreFull: the system or the disk refused.
        """
        self._path = os.path.realpath(path)  # SQLite names its -wal after the real file
        self._exclusive = exclusive
        self._waiter: Waiter = waiter or RealWaiter()
        self._poll_interval_s = poll_interval_s
        self._changed = threading.Condition()
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._closed = False
        with translated(self._path), ExitStack() as opened:
            lock = self._take_lock(opened) if exclusive else None
            if lock is None:
                sqlite_file.require_ledger(self._path)
            else:
                sqlite_file.prepare(self._path, owned_before=lock.owned_before)
            self._witness = self._open_witness(opened) if exclusive else None
            # Looked at read-only first: closing a writing connection moves the WAL into the file,
            # and a file that is refused has to stay as it is.
            self._reader = self._connect(opened, for_writing=False)
            if check_version(self._reader, self._path, may_migrate=exclusive):
                with ExitStack() as migrating:
                    migrate(self._connect(migrating, for_writing=True))
            check_tables(self._reader, self._path)
            check_wal(self._path)
            self._known_head = self._check_end()
            self._writer = self._connect(opened, for_writing=True)
            self._data_version = self._read_data_version()
            self._files = self._identities()
            opened.pop_all()  # nothing failed: from here on, close() decides the order
        self._resources = self._in_closing_order(lock)

    def append(self, after_seq: int, data: Sequence[bytes]) -> int:
        """See ``Store.append``."""
        with self._write_lock, self._writing():
            head = sqlite_log.read_head(self._writer, self._path)
            if head.seq != after_seq:
                raise SequenceConflict(after_seq, head.seq)
            if not data:
                return head.seq
            rows = list(_chained(head, data))
            self._writer.executemany("INSERT INTO event (seq, data, sum) VALUES (?, ?, ?)", rows)
            last_seq, _, last_sum = rows[-1]
            self._writer.execute(
                "UPDATE bound SET seq = ?, sum = ? WHERE name = 'head'", (last_seq, last_sum)
            )
            self._commit()
            if self._witness is not None:
                self._witness.record(Bound(last_seq, last_sum))
        with self._changed:
            self._known_head = max(self._known_head, last_seq)
            self._changed.notify_all()
        return last_seq

    def watch(self, after_seq: int, timeout_s: float) -> int:
        """See ``Store.watch``. Polls for other processes' appends unless this store is exclusive."""
        deadline_s = self._waiter.now_s() + timeout_s
        with self._changed:
            while True:
                if self._closed:
                    raise StoreClosed
                if not self._exclusive:
                    self._look_for_others()
                left_s = deadline_s - self._waiter.now_s()
                if self._known_head > after_seq or left_s <= 0:
                    return self._known_head
                slice_s = left_s if self._exclusive else min(left_s, self._poll_interval_s)
                self._waiter.wait(self._changed, slice_s)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """See ``Store.save_snapshot``."""
        with self._write_lock, self._writing():
            head = sqlite_log.read_head(self._writer, self._path)
            base = sqlite_log.read_base(self._writer, self._path)
            if not base.seq <= snapshot.seq <= head.seq:
                raise ValueError(
                    f"snapshot at {snapshot.seq}, base is {base.seq}, head is {head.seq}"
                )
            point = sqlite_log.read_bound(self._writer, self._path, snapshot.seq)
            own_sum = snapshot_sum(point.sum, snapshot.seq, snapshot.data)
            self._writer.execute(
                "INSERT OR REPLACE INTO snapshot (seq, data, event_sum, sum) VALUES (?, ?, ?, ?)",
                (snapshot.seq, snapshot.data, point.sum, own_sum),
            )
            sqlite_drop.thin_snapshots(self._writer)
            self._commit()

    def drop(self, upto_seq: int, limit: int) -> int:
        """See ``Store.drop``. Pages that came free are given back while more than a quarter of the file is."""
        with self._write_lock, self._writing():
            base = sqlite_drop.drop_events(self._writer, self._path, upto_seq, limit)
            self._commit()
            sqlite_drop.give_back(self._writer)
            return base

    def give_back(self) -> bool:
        """Give some free pages back to the file system; whether there may be more to give."""
        if self._closed:
            raise StoreClosed
        with self._write_lock, translated(self._path):
            self._check_still_there()
            return sqlite_drop.give_back(self._writer)

    def rebuild(self) -> None:
        """Write the file anew without free pages. Exclusive stores only; takes as long as copying it."""
        if not self._exclusive:
            raise ValueError("rebuild() of a store that another process may own")
        with self._write_lock, self._read_lock, translated(self._path):
            self._check_still_there()
            sqlite_drop.rebuild(self._writer)

    def close(self) -> None:
        """See ``Store.close``. Moves the WAL into the file, and lets go of the lock last."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with self._write_lock, self._read_lock, translated(self._path):
            self._resources.close()

    def _take_lock(self, opened: ExitStack) -> LedgerLock:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        lock = LedgerLock(self._path)
        opened.callback(lock.release)
        return lock

    def _open_witness(self, opened: ExitStack) -> HeadWitness:
        witness = HeadWitness(self._path)
        opened.callback(witness.close)
        return witness

    def _in_closing_order(self, lock: LedgerLock | None) -> ExitStack:
        # The reader first: only a writing connection that closes last moves the WAL into the file.
        resources = ExitStack()
        if lock is not None:
            resources.callback(lock.release)
        if self._witness is not None:
            resources.callback(self._witness.close)
        resources.callback(self._writer.close)
        resources.callback(self._reader.close)
        return resources

    def _connect(self, opened: ExitStack, *, for_writing: bool) -> sqlite3.Connection:
        connection = sqlite_file.connect(self._path, for_writing=for_writing)
        opened.callback(connection.close)
        return connection

    def _check_end(self) -> int:
        """Check the events that no snapshot covers yet: those the caller is about to replay."""
        with sqlite_log.transaction(self._reader):
            recorded = None if self._witness is None else self._witness.recorded()
            if recorded is not None:
                sqlite_log.check_witness(self._reader, self._path, recorded)
            newest = sqlite_log.newest_snapshot(self._reader, self._path)
            if newest is None:
                after = sqlite_log.read_base(self._reader, self._path)
            else:
                after = sqlite_log.read_bound(self._reader, self._path, newest.seq)
            return after.seq + sqlite_log.check_tail(self._reader, self._path, after)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._closed:
            raise StoreClosed
        with translated(self._path):
            self._check_still_there()
            with sqlite_log.transaction(self._writer, "BEGIN IMMEDIATE"):
                yield

    def _commit(self) -> None:
        with translated(self._path, committing=True):
            self._writer.execute("COMMIT")

    def _check_still_there(self) -> None:
        # SQLite would go on writing into a file that was unlinked: acknowledged, and gone at exit.
        if self._identities() != self._files:
            raise StoreUnavailable(
                self._path,
                "the file or its -wal was moved, removed or replaced while in use",
                "put it back or restore a backup, then restart the ledger",
            )

    def _identities(self) -> tuple[sqlite_file.Identity | None, ...]:
        return sqlite_file.identity(self._path), sqlite_file.identity(self._path + "-wal")

    def _look_for_others(self) -> None:
        with self._read_lock, translated(self._path):
            version = self._read_data_version()
        if version != self._data_version:
            self._data_version = version
            self._known_head = max(self._known_head, self.head())

    def _read_data_version(self) -> int:
        return int(self._reader.execute("PRAGMA data_version").fetchone()[0])


def _chained(head: Bound, data: Sequence[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    seq, previous = head
    for event in data:
        seq += 1
        previous = event_sum(previous, seq, event)
        yield seq, event, previous
