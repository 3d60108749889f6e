"""How much of the log is kept: what may be dropped, and up to where it is (pure but for reading the log)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.client import config
from leasefs.service import snapshot, wire_json
from leasefs.service.history import last_up_to

if TYPE_CHECKING:
    from leasefs.store.port import Store

KEEP_AT_LEAST_S = 3600.0
"""Events as young as this are not dropped by themselves: a follower that was cut off goes on where it was."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept: the newest events, those of so many seconds, so many bytes; None is no bound. All of them hold.

    `young_s` is how old an event is at least before it goes whatever else is said.
    """

    events: int | None = None
    age_s: float | None = None
    size_bytes: int | None = None
    young_s: float = KEEP_AT_LEAST_S


def configured() -> Retention:
    """What the settings say. Raises BadConfiguration."""
    return Retention(
        config.whole("ledger.keep_events"),
        config.seconds("ledger.keep_s") or None,
        config.whole("ledger.keep_bytes") or None,
    )


def configured_archive() -> str:
    """The directory that the settings name; "" if they name none. Raises BadConfiguration."""
    return config.path("ledger.archive")


def cut(store: Store, keep: Retention, wall_s: float) -> int:
    """The last event that need not be kept; the base or less if all must be. Raises StoreError, UnknownEvent."""
    base, head = store.base(), store.head()
    cuts = [base]
    if keep.events is not None:
        cuts.append(_nth_from_end(store, keep.events))
    if keep.age_s is not None:
        cuts.append(last_up_to(store, wall_s - keep.age_s))
    if keep.size_bytes is not None:
        size_bytes = store.size_bytes()
        if size_bytes > keep.size_bytes:
            # Events are about as big as they were before.
            cuts.append(base + int((head - base) * (1 - keep.size_bytes / size_bytes)))
    wanted = max(cuts)
    if wanted <= base or keep.young_s <= 0.0:
        return wanted
    return min(wanted, last_up_to(store, wall_s - keep.young_s))


def _nth_from_end(store: Store, count: int) -> int:
    # Numbers stand for events: the gap that a restored backup left makes us keep fewer old ones, never fewer new ones.
    return store.head() - count


def target(store: Store, upto_seq: int) -> int:
    """Where the log may begin: the newest snapshot up to there that can be read, with another one after it.

    The base if there is none. Raises StoreError.
    """
    base, kept = store.base(), store.snapshots()
    for seq in reversed([seq for seq in kept[:-1] if base < seq <= upto_seq]):
        if _is_readable(store, seq) and _is_readable(store, kept[-1]):
            return seq
    return base


def _is_readable(store: Store, seq: int) -> bool:
    found = store.load_snapshot(seq)
    if found is None or found.seq != seq:
        return False
    try:
        snapshot.read(found.data)
    except wire_json.Unreadable as error:
        _log.warning("snapshot at event %d keeps older events from being dropped: %s", seq, error)
        return False
    return True
