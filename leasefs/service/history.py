"""The state at any number of the log: the nearest snapshot before it, and the events from there on (P11).

Replaying is work of the processor, so it is done in a thread that lets the server's loop go first again and again, one
replay at a time. What it may cost is bounded by the distance of milestones (`leasefs.store.port`). The last few states are
kept: whoever looks at leases then looks at the queue.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core.errors import InvalidRequest
from leasefs.core.state import State, apply
from leasefs.service.entries import recorded_of, wall_of
from leasefs.service.recovery import newest_saved

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.store.port import Store

PAGE = 100
KEPT = 4
# Between two pages whoever waits for the interpreter has it; a page takes a few milliseconds.
_BREATH_S = 0.0005
_NOTHING = 1


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after event `seq`, and what the clocks said: ledger time, and the wall clock for people."""

    seq: int
    at_s: float
    wall_s: float
    state: State


@dataclass(frozen=True, slots=True)
class Extent:
    """What a log can tell: events after `base` up to `head`, states from `states_from` on; it takes `size_bytes`."""

    base: int
    states_from: int
    head: int
    size_bytes: int


class Abandoned(Exception):
    """Nobody waits for this replay any more."""


class History:
    """Reads one log's past."""

    def __init__(self, store: Store, *, breath_s: float = _BREATH_S) -> None:
        self._store = store
        self._breath_s = breath_s
        self._kept: OrderedDict[int, Moment] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    async def at(self, seq: int) -> Moment:
        """The state after event `seq`; in the gap that a restored backup left, after the one before it.

        Raises:
            InvalidRequest: that is past the head, or before the first state that can be had.
            StoreError, UnknownEvent: the log cannot be read.
        """
        async with self._one_at_a_time:
            stop = threading.Event()
            try:
                return await asyncio.to_thread(self.replayed, seq, stop.is_set)
            finally:
                stop.set()  # if we were cancelled, the thread need not go on

    async def extent(self) -> Extent:
        """What can be told. Raises StoreError."""
        return await asyncio.to_thread(self._extent)

    async def seq_at(self, wall_s: float) -> int:
        """The last event up to this time of the wall clock; the base if all are later.

        Where that clock was stepped back, one of those that qualify. Raises StoreError, UnknownEvent.
        """
        return await asyncio.to_thread(last_up_to, self._store, wall_s)

    def replayed(self, seq: int, abandoned: Callable[[], bool] = lambda: False) -> Moment:
        """`at`, in this thread. Raises also Abandoned."""
        kept = self._kept.get(seq)
        if kept is not None:
            self._kept.move_to_end(seq)
            return kept
        extent = self._extent()
        if seq > extent.head:
            raise InvalidRequest(f"there is no event {seq} yet: the log ends at {extent.head}")
        if seq < extent.states_from:
            raise InvalidRequest(
                f"what held at event {seq} cannot be told any more: older events were dropped, and states are known from "
                f"event {extent.states_from} on; look in the archive or a backup",
                states_from=extent.states_from,
            )
        moment = self._replay(seq, abandoned)
        self._kept[seq] = moment
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return moment

    def _replay(self, seq: int, abandoned: Callable[[], bool]) -> Moment:
        state = newest_saved(self._store, seq).state
        last = None
        while page := self._store.read(state.seq, PAGE):
            for entry in page:
                if entry.seq > seq:
                    break
                state, last = apply(state, recorded_of(entry)), entry
            if page[-1].seq >= seq:
                break
            if abandoned():
                raise Abandoned
            time.sleep(self._breath_s)
        if last is None:
            last = next(
                iter(self._store.read(max(self._store.base(), state.seq - 1), _NOTHING)), None
            )
        return Moment(state.seq, state.at_s, wall_of(last) if last else 0.0, state)

    def _extent(self) -> Extent:
        base, head = self._store.base(), self._store.head()
        kept = self._store.snapshots()
        # From an empty log on everything is known; otherwise from the first state that was kept.
        states_from = 0 if base == 0 else min(kept, default=head)
        return Extent(base, states_from, head, self._store.size_bytes())


def last_up_to(store: Store, wall_s: float) -> int:
    """The number of the last event up to a time of the wall clock, by bisection. Raises StoreError, UnknownEvent."""
    low, high = store.base(), store.head()
    while low < high:
        middle = (low + high) // 2
        entry = store.read(middle, 1)[0]  # the first after `middle`, which may be far in a gap
        if wall_of(entry) <= wall_s:
            low = entry.seq
        else:
            high = middle
    return low
