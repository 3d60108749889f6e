"""What a server knows when it starts: the newest intact snapshot, and every event after it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasefs.core.events import LedgerStarted, Recorded
from leasefs.core.state import State, apply
from leasefs.service import snapshot, wire_json
from leasefs.service.clock import ClockMark
from leasefs.service.entries import recorded_of
from leasefs.service.snapshot import Saved
from leasefs.store.errors import StoreError

if TYPE_CHECKING:
    from leasefs.store.port import Store

PAGE = 5_000
_log = logging.getLogger(__name__)


def recover(store: Store) -> Saved:
    """The state at the log's head, and how the last server's clock ran.

    Raises:
        StoreError: the store cannot be read.
        UnknownEvent: a newer leasefs wrote to this log.
    """
    saved = newest_saved(store)
    while page := store.read(saved.state.seq, PAGE):
        for entry in page:
            saved = _with(saved, recorded_of(entry))
    return saved


def newest_saved(store: Store, upto_seq: int | None = None) -> Saved:
    """The newest snapshot that can be read, none after `upto_seq`; of a log that has its beginning, else the empty state.

    Raises:
        StoreError: the beginning was dropped, and no snapshot can be read.
    """
    while True:
        kept = store.load_snapshot(upto_seq)
        if kept is None:
            break
        try:
            return snapshot.read(kept.data)
        except wire_json.Unreadable as error:
            # The log says the same, only slower.
            _log.warning("snapshot at event %d is passed over: %s", kept.seq, error)
            upto_seq = kept.seq - 1
    base = store.base()
    if base:
        raise StoreError(
            f"events up to {base} were dropped, and no state after them can be read by this leasefs: upgrade it, or bring "
            "back a backup (`leasefs ledger restore`)"
        )
    return Saved(State(), None)


def _with(saved: Saved, recorded: Recorded) -> Saved:
    return Saved(apply(saved.state, recorded), mark_of(recorded) or saved.clock)


def mark_of(recorded: Recorded) -> ClockMark | None:
    """How the clock runs from this event on, if it says so."""
    event = recorded.event
    if not isinstance(event, LedgerStarted) or not event.boot_id:
        return None
    return ClockMark(event.boot_id, recorded.at_s - event.boottime_s)
