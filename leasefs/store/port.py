"""The port: what the ledger needs from whatever keeps its event log.

Rules of every engine (the conformance suite, ``leasefs.testing.store_conformance``, holds them to it):

1. The log is events 1, 2, 3, ... with no gap. Its head is the last number, 0 when empty.
2. ``append`` is one durable transaction: all of its events or none, on disk when it returns.
3. ``append`` names the head it decided upon; a head that moved meanwhile is a ``SequenceConflict``.
4. Data is opaque bytes; what was appended is read back exactly, or ``StoreCorrupt`` is raised.
5. A snapshot is a shortcut. Losing one loses no event, so a damaged one is passed over.
6. Every method blocks and may be called from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

SNAPSHOTS_KEPT = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One event as stored."""

    seq: int
    """1, 2, 3, ... with no gap."""
    data: bytes
    """Opaque to the store; UTF-8 JSON in practice."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after event ``seq``."""

    seq: int
    data: bytes


class Store(Protocol):
    """The event log (design.md section 4, "The ledger is a log")."""

    def append(self, after_seq: int, data: Sequence[bytes]) -> int:
        """Append events ``after_seq + 1`` and on, durably, all or none; returns the new head.

        Of no events it only checks the head.

        Raises:
            SequenceConflict: the head is not ``after_seq``.
            StoreFull: no space left; nothing was written.
            StoreUnavailable: the engine could not; see its ``happened``.
            StoreCorrupt: the log's end is damaged; nothing was written.
            StoreClosed: after ``close``.
        """
        ...

    def read(self, after_seq: int, limit: int) -> list[Entry]:
        """Up to ``limit`` events following ``after_seq``, in order; empty at or past the head.

        Raises:
            StoreCorrupt: an event in that range is missing or not as it was written.
            ValueError: ``after_seq`` is negative or ``limit`` is below 1.
        """
        ...

    def head(self) -> int:
        """The last event's sequence number, 0 when there is none."""
        ...

    def watch(self, after_seq: int, timeout_s: float) -> int:
        """Block until the head is past ``after_seq`` or ``timeout_s`` seconds went by; the head.

        Raises:
            StoreClosed: closed before or while waiting.
        """
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, durably; the oldest beyond ``SNAPSHOTS_KEPT`` are dropped.

        Raises:
            ValueError: ``snapshot.seq`` is negative or past the head.
        """
        ...

    def load_snapshot(self) -> Snapshot | None:
        """The newest snapshot that is intact, or None."""
        ...

    def close(self) -> None:
        """Let go of everything and wake who watches. May be called twice."""
        ...
