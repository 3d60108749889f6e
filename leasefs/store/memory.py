"""The log in RAM: for tests and ``--ephemeral``. Same behaviour as the others, gone with the process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from leasefs.store.errors import EventsDropped, SequenceConflict, StoreClosed
from leasefs.store.port import Entry, Snapshot, check_drop, worth_keeping
from leasefs.store.waiting import RealWaiter, Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryStore:
    """A ``Store`` that forgets."""

    def __init__(self, *, waiter: Waiter | None = None) -> None:
        self._waiter: Waiter = waiter or RealWaiter()
        self._changed = threading.Condition()
        self._base = 0
        self._events: list[bytes] = []
        self._snapshots: dict[int, bytes] = {}
        self._closed = False

    def append(self, after_seq: int, data: Sequence[bytes]) -> int:
        """See ``Store.append``."""
        with self._changed:
            self._check_open()
            if self._head() != after_seq:
                raise SequenceConflict(after_seq, self._head())
            self._events.extend([bytes(event) for event in data])
            self._changed.notify_all()
            return self._head()

    def read(self, after_seq: int, limit: int) -> list[Entry]:
        """See ``Store.read``."""
        if after_seq < 0 or limit < 1:
            raise ValueError(f"read(after_seq={after_seq}, limit={limit})")
        with self._changed:
            self._check_open()
            if after_seq < self._base:
                raise EventsDropped(after_seq, self._base)
            found = self._events[after_seq - self._base :][:limit]
        return [Entry(after_seq + i, event) for i, event in enumerate(found, start=1)]

    def head(self) -> int:
        """See ``Store.head``."""
        with self._changed:
            self._check_open()
            return self._head()

    def base(self) -> int:
        """See ``Store.base``."""
        with self._changed:
            self._check_open()
            return self._base

    def watch(self, after_seq: int, timeout_s: float) -> int:
        """See ``Store.watch``."""
        deadline_s = self._waiter.now_s() + timeout_s
        with self._changed:
            while True:
                self._check_open()
                left_s = deadline_s - self._waiter.now_s()
                if self._head() > after_seq or left_s <= 0:
                    return self._head()
                self._waiter.wait(self._changed, left_s)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """See ``Store.save_snapshot``."""
        with self._changed:
            self._check_open()
            if not self._base <= snapshot.seq <= self._head():
                raise ValueError(
                    f"snapshot at {snapshot.seq}, base is {self._base}, head is {self._head()}"
                )
            self._snapshots[snapshot.seq] = snapshot.data
            for seq in self._snapshots.keys() - worth_keeping(self._snapshots):
                del self._snapshots[seq]

    def load_snapshot(self, upto_seq: int | None = None) -> Snapshot | None:
        """See ``Store.load_snapshot``."""
        with self._changed:
            self._check_open()
            seqs = [seq for seq in self._snapshots if upto_seq is None or seq <= upto_seq]
            return Snapshot(max(seqs), self._snapshots[max(seqs)]) if seqs else None

    def snapshots(self) -> list[int]:
        """See ``Store.snapshots``."""
        with self._changed:
            self._check_open()
            return sorted(self._snapshots)

    def drop(self, upto_seq: int, limit: int) -> int:
        """See ``Store.drop``."""
        with self._changed:
            self._check_open()
            check_drop(self._snapshots, upto_seq, limit)
            count = max(0, min(upto_seq - self._base, limit))
            del self._events[:count]
            self._base += count
            for seq in [seq for seq in self._snapshots if seq < self._base]:
                del self._snapshots[seq]
            return self._base

    def size_bytes(self) -> int:
        """See ``Store.size_bytes``."""
        with self._changed:
            self._check_open()
            return sum(map(len, (*self._events, *self._snapshots.values())))

    def close(self) -> None:
        """See ``Store.close``."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _head(self) -> int:
        return self._base + len(self._events)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed
