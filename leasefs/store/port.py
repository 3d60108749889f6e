"""The port: what the ledger needs from whatever keeps its event log.

Rules of every engine (the conformance suite, ``leasefs.testing.store_conformance``, holds them to it):

1. The log is the events after its base, whose numbers only grow. The base is 0, and moves on when old events are
   dropped. Its head is the last number, the base when empty. `append` numbers on without a gap; only bringing back a
   backup leaves one, on purpose (`leasefs.store.restoring`), and readers pass over it.
2. ``append`` is one durable transaction: all of its events or none, on disk when it returns.
3. ``append`` names the head it decided upon; a head that moved meanwhile is a ``SequenceConflict``.
4. Data is opaque bytes; what was appended is read back exactly, or ``StoreCorrupt`` is raised.
5. A snapshot is a shortcut. Losing one loses no event, so a damaged one is passed over.
6. An event is dropped only if a snapshot at or after it is kept, so the newest state can always be had.
7. Every method blocks and may be called from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SNAPSHOTS_KEPT = 3
MILESTONE_EVERY = 200_000
"""The first snapshot of so many events is kept for as long as they are: older states are replayed from there."""


def worth_keeping(seqs: Iterable[int]) -> frozenset[int]:
    """Which of these snapshots are kept: the newest few, the oldest, and the milestones."""
    ordered = sorted(seqs)
    milestones: dict[int, int] = {}
    for seq in ordered:
        milestones.setdefault(seq // MILESTONE_EVERY, seq)
    return frozenset((*ordered[:1], *milestones.values(), *ordered[-SNAPSHOTS_KEPT:]))


def check_drop(snapshots: Iterable[int], upto_seq: int, limit: int) -> None:
    """Raise ValueError unless two snapshots would be left: if one is damaged, the state can still be had."""
    if limit < 1 or sum(seq >= upto_seq for seq in snapshots) < 2:
        raise ValueError(
            f"drop(upto_seq={upto_seq}, limit={limit}): two snapshots must be kept at or after it"
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One event as stored."""

    seq: int
    """Greater than that of the event before."""
    data: bytes
    """Opaque to the store; UTF-8 JSON in practice."""
    sum: bytes = field(default=b"", compare=False)
    """The chain's sum up to here (``leasefs.store.chain``), empty where the engine has none."""


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
            EventsDropped: ``after_seq`` is before the base.
            StoreCorrupt: an event in that range is missing or not as it was written.
            ValueError: ``after_seq`` is negative or ``limit`` is below 1.
        """
        ...

    def head(self) -> int:
        """The last event's sequence number, the base when there is none."""
        ...

    def base(self) -> int:
        """The number after which the log begins: 0 until something was dropped."""
        ...

    def watch(self, after_seq: int, timeout_s: float) -> int:
        """Block until the head is past ``after_seq`` or ``timeout_s`` seconds went by; the head.

        Raises:
            StoreClosed: closed before or while waiting.
        """
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, durably; those that are not `worth_keeping` any more go.

        Raises:
            ValueError: ``snapshot.seq`` is before the base or past the head.
        """
        ...

    def load_snapshot(self, upto_seq: int | None = None) -> Snapshot | None:
        """The newest snapshot that is intact, or None; with ``upto_seq`` none after that number."""
        ...

    def snapshots(self) -> list[int]:
        """The numbers at which snapshots are kept, oldest first."""
        ...

    def drop(self, upto_seq: int, limit: int) -> int:
        """Drop the oldest events up to ``upto_seq``, at most ``limit``, and their snapshots; the new base.

        One short transaction, so that appends wait for no more than this; called again until the base is there.

        Raises:
            ValueError: fewer than two snapshots are kept at or after ``upto_seq``, or ``limit`` is below 1.
        """
        ...

    def size_bytes(self) -> int:
        """How much room events and snapshots take."""
        ...

    def close(self) -> None:
        """Let go of everything and wake who watches. May be called twice."""
        ...
