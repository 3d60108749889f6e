"""The log in RAM: for tests and ``--ephemeral``. Same behaviour as the others, gone with the process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from leasefs.store.errors import SequenceConflict, StoreClosed
from leasefs.store.port import SNAPSHOTS_KEPT, Entry, Snapshot
from leasefs.store.waiting import RealWaiter, Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryStore:
    """A ``Store`` that forgets."""

    def __init__(self, *, waiter: Waiter | None = None) -> None:
        self._waiter: Waiter = waiter or RealWaiter()
        self._changed = threading.Condition()
        self._events: list[bytes] = []
        self._snapshots: dict[int, bytes] = {}
        self._closed = False

    def append(self, after_seq: int, data: Sequence[bytes]) -> int:
        """See ``Store.append``."""
        with self._changed:
            self._check_open()
            if len(self._events) != after_seq:
                raise SequenceConflict(after_seq, len(self._events))
            self._events.extend([bytes(event) for event in data])
            self._changed.notify_all()
            return len(self._events)

    def read(self, after_seq: int, limit: int) -> list[Entry]:
        """See ``Store.read``."""
        if after_seq < 0 or limit < 1:
            raise ValueError(f"read(after_seq={after_seq}, limit={limit})")
        with self._changed:
            self._check_open()
            found = self._events[after_seq : after_seq + limit]
        return [Entry(after_seq + i, event) for i, event in enumerate(found, start=1)]

    def head(self) -> int:
        """See ``Store.head``."""
        with self._changed:
            self._check_open()
            return len(self._events)

    def watch(self, after_seq: int, timeout_s: float) -> int:
        """See ``Store.watch``."""
        deadline_s = self._waiter.now_s() + timeout_s
        with self._changed:
            while True:
                self._check_open()
                left_s = deadline_s - self._waiter.now_s()
                if len(self._events) > after_seq or left_s <= 0:
                    return len(self._events)
                self._waiter.wait(self._changed, left_s)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """See ``Store.save_snapshot``."""
        with self._changed:
            self._check_open()
            if not 0 <= snapshot.seq <= len(self._events):
                raise ValueError(f"snapshot at {snapshot.seq}, head is {len(self._events)}")
            self._snapshots[snapshot.seq] = snapshot.data
            for seq in sorted(self._snapshots)[:-SNAPSHOTS_KEPT]:
                del self._snapshots[seq]

    def load_snapshot(self) -> Snapshot | None:
        """See ``Store.load_snapshot``."""
        with self._changed:
            self._check_open()
            if not self._snapshots:
                return None
            seq = max(self._snapshots)
            return Snapshot(seq, self._snapshots[seq])

    def close(self) -> None:
        """See ``Store.close``."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed
