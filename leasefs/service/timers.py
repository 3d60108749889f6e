"""What must be looked at when: wakes a Tick for the leases and sessions whose deadlines are due.

A heap of due times. A renewal moves a deadline later, which costs nothing here: the old entry fires, finds
nothing due, and is put back at the new time. Only a deadline that moves earlier is pushed at once. What ended
is forgotten, and its entry stays in the heap until such entries are the greater part of it; then the heap is
made anew. So each event costs O(log n) at most, and nothing ever looks at all leases.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import TYPE_CHECKING

from leasefs.core import events as ev
from leasefs.core.commands import Tick
from leasefs.core.errors import LeasefsError
from leasefs.core.renewal import lease_due_at_s, session_due_at_s
from leasefs.core.views import is_live

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasefs.core.state import State
    from leasefs.service.entries import Record
    from leasefs.service.writer import LedgerWriter

LONGEST_SLEEP_S = 1.0
"""The loop's timer stands still while the machine sleeps, ledger time does not: look often enough."""
RETRY_S = 1.0
AT_ONCE = 512
"""How many deadlines one Tick carries: thousands that are due together must not stall the others."""
SPARE_ENTRIES = 1_000

_Key = tuple[str, str]
_LEASE, _SESSION = "lease", "session"
_OPENING: _Key = ("opening", "")
_log = logging.getLogger(__name__)


class Timers:
    """The deadlines of one ledger. `look` acts on what is due, `run` calls it in time."""

    def __init__(self, writer: LedgerWriter) -> None:
        self._writer = writer
        self._heap: list[tuple[float, _Key]] = []
        self._due: dict[_Key, float] = {}
        self._earlier = asyncio.Event()
        state = writer.durable
        for id_ in state.leases:
            self._plan((_LEASE, id_), state)
        for id_ in state.sessions:
            self._plan((_SESSION, id_), state)
        self._plan(_OPENING, state)
        writer.listen(self._heard)

    async def run(self) -> None:
        """Look whenever something is due, until cancelled."""
        while True:
            await self.look()
            self._earlier.clear()
            try:
                await asyncio.wait_for(self._earlier.wait(), self._sleep_s())
            except TimeoutError:
                continue

    async def look(self) -> None:
        """Act on everything that is due now; done when that is durable."""
        while due := self._pop_due():
            tick = Tick(
                leases=tuple(id_ for kind, id_ in due if kind == _LEASE),
                sessions=tuple(id_ for kind, id_ in due if kind == _SESSION),
            )
            try:
                await self._writer.submit(tick)
            except LeasefsError as error:
                _log.warning("deadlines have to wait: %s", error)
                self._put_back(due)
                return
            for key in due:
                self._plan(key, self._writer.durable)

    def _sleep_s(self) -> float | None:
        if not self._heap:
            return None
        return min(LONGEST_SLEEP_S, max(0.0, self._heap[0][0] - self._writer.now_s()))

    def _pop_due(self) -> list[_Key]:
        """Take out what is due, at most AT_ONCE; what has become later meanwhile is put back."""
        now_s = self._writer.now_s()
        due: list[_Key] = []
        while self._heap and self._heap[0][0] <= now_s and len(due) < AT_ONCE:
            at_s, key = heapq.heappop(self._heap)
            if self._due.get(key) != at_s:
                continue
            del self._due[key]
            if self._is_due(key, now_s):
                due.append(key)
            else:
                self._plan(key, self._writer.durable)
        return due

    def _is_due(self, key: _Key, now_s: float) -> bool:
        kind, id_ = key
        if key == _OPENING:
            return 0.0 < self._writer.durable.closed_until_s <= now_s
        if kind == _LEASE:
            due_s = lease_due_at_s(self._writer.durable, id_)
            return due_s is not None and due_s <= now_s
        session = self._writer.durable.sessions.get(id_)
        return session is not None and not is_live(session, now_s)

    def _put_back(self, keys: list[_Key]) -> None:
        retry_at_s = self._writer.now_s() + RETRY_S
        for key in keys:
            self._push(key, retry_at_s)

    def _heard(self, records: Sequence[Record], state: State) -> None:
        for record in records:
            ended = _ended(record.event)
            if ended is not None:
                self._due.pop(ended, None)
            for key in _touched(record.event):
                self._plan(key, state)
            if isinstance(record.event, ev.AdmissionSet):  # its cap on holds is about all of them
                for id_ in state.leases:
                    self._plan((_LEASE, id_), state)
        if len(self._heap) > 2 * len(self._due) + SPARE_ENTRIES:
            self._heap = [(due_s, key) for key, due_s in self._due.items()]
            heapq.heapify(self._heap)

    def _plan(self, key: _Key, state: State) -> None:
        """Make sure that `key` is looked at no later than it must be."""
        due_s = self._due_at_s(key, state)
        if due_s is not None and due_s < self._due.get(key, float("inf")):
            self._push(key, due_s)

    def _push(self, key: _Key, due_s: float) -> None:
        self._due[key] = due_s
        heapq.heappush(self._heap, (due_s, key))
        if self._heap[0][1] == key:
            self._earlier.set()

    def _due_at_s(self, key: _Key, state: State) -> float | None:
        kind, id_ = key
        if key == _OPENING:
            return state.closed_until_s or None
        if kind == _LEASE:
            return lease_due_at_s(state, id_)
        return session_due_at_s(state, id_, self._writer.now_s())


def _ended(event: ev.AnyEvent) -> _Key | None:
    """Whose deadlines are over."""
    if isinstance(event, ev.Released | ev.Expired):
        return _LEASE, event.lease
    return (_SESSION, event.session) if isinstance(event, ev.SessionEnded) else None


def _touched(event: ev.AnyEvent) -> Iterator[_Key]:
    """Whose deadline an event sets."""
    if isinstance(event, ev.Queued):
        # A sign of life of a session that may have been silent, and must be watched again: it waits.
        yield _SESSION, event.claim.session
    elif isinstance(event, ev.Granted):
        yield _LEASE, event.claim.id
    elif isinstance(event, ev.Recalled | ev.RecallEnded | ev.Revoked | ev.HoldSet):
        yield _LEASE, event.lease
    elif isinstance(event, ev.SessionOpened):
        yield _SESSION, event.session.id
    elif isinstance(event, ev.Renewed):
        yield _SESSION, event.session
        for renewal in event.leases:
            yield _LEASE, renewal.lease
