"""The one writer: every change of the ledger passes here, and nobody is answered before it is durable.

    submit(command) ── decided at once, on a state that is not durable yet ──▶ gathering group
    gathering group ── one store.append in a worker thread ──▶ durable: published, answered

While one group is being appended, the next one gathers. So under load one synced commit carries many
requests, and a lone request waits for nothing but its own.

Everything here runs on the event loop's thread; the worker thread gets finished bytes and gives back a
number. Invariants:

* `durable` is the state at the log's head as far as this server wrote or read it. Readers see no other.
* `_ahead` is the state after the last request decided. It is `durable` plus the group in flight plus
  the gathering one, in this order.
* A request that changes nothing is answered with its group all the same: what it saw must be durable.
* If the append fails, `_ahead` falls back to `durable` (states are immutable, so it is still there). The
  failed group is told so; what gathered behind it is decided again, for it stood on events that never
  happened. If another server appended first, both are decided again on what it wrote.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.client.log_events import Event, note
from leasefs.core.errors import LedgerUnavailable
from leasefs.core.ledger import Decision, decide
from leasefs.core.state import State, apply
from leasefs.service.appends import Appends
from leasefs.service.entries import Record, record_again, record_of, recorded_of
from leasefs.service.recovery import PAGE
from leasefs.store.errors import SequenceConflict, StoreError

if TYPE_CHECKING:
    from leasefs.core.clock import Clock
    from leasefs.core.commands import AnyCommand
    from leasefs.store.port import Store

Listener = Callable[[Sequence[Record], State], None]
"""Told of durable events, in order, each once, and of the state after them. Must not raise."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Request:
    command: AnyCommand
    answer: asyncio.Future[Decision]
    decision: Decision
    records: tuple[Record, ...]


class LedgerWriter:
    """Decides commands and makes their events durable, in groups."""

    def __init__(self, store: Store, clock: Clock, state: State) -> None:
        """`state` is that at the store's head."""
        self._store = store
        self._clock = clock
        self.appends = Appends()
        self.durable = state
        self._ahead = state
        self._gathering: list[_Request] = []
        self._arrived = asyncio.Event()
        self._listeners: list[Listener] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger-append")

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of every durable event from now on."""
        self._listeners.append(listener)

    def now_s(self) -> float:
        """Ledger time for whoever reads `durable`; never before its last event."""
        return max(self._clock.now_s(), self.durable.at_s)

    def wall_s(self) -> float:
        """Seconds since the epoch, for people; decides nothing about leases."""
        return self._clock.wall_s()

    def submit(self, command: AnyCommand) -> asyncio.Future[Decision]:
        """Decide `command` now; the future has the decision once it is durable.

        Commands submitted without an await in between become durable together.
        The future raises LedgerUnavailable if the store could not take the events: nothing happened, unless
        the message says that this is not known.
        """
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        request = _Request(command, answer, Decision((), self._ahead), ())
        if self._decide(request):
            self._gathering.append(request)
            self._arrived.set()
        return answer

    async def run(self) -> None:
        """Append group after group until cancelled. Cancel it only when nothing is submitted any more."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            group, self._gathering = self._gathering, []
            if group:
                await self._commit(group)

    async def turned(self) -> None:
        """Return once the thread that appends has come round: what it was doing when asked is done."""
        await asyncio.get_running_loop().run_in_executor(self._thread, int)

    async def check(self) -> None:
        """Have the engine look at its file and the log's head, behind what is being appended.

        Raises:
            SequenceConflict: the head has moved, as it does when something was appended meanwhile.
            StoreError: nothing could be appended now.
        """
        await self._in_thread([])

    def close(self) -> None:
        """Let go of the worker thread."""
        self._thread.shutdown(wait=True)

    def _decide(self, request: _Request) -> bool:
        """Decide on `_ahead`. False if our own code failed: the request is told, and changed nothing."""
        before = self._ahead
        try:
            decision = decide(before, request.command, self._clock.now_s())
            wall_s = self._clock.wall_s()
            request.records = tuple(
                record_of(recorded, before, decision.state, wall_s) for recorded in decision.events
            )
        except Exception as error:  # noqa: BLE001 -- logged; one request fails, not the writer
            _log.exception("deciding %s failed", type(request.command).__name__)
            request.answer.set_exception(error)
            return False
        request.decision = decision
        self._ahead = decision.state
        return True

    async def _commit(self, group: list[_Request]) -> None:
        records = [record for request in group for record in request.records]
        try:
            if records:
                await self._append([record.data for record in records])
        except SequenceConflict:
            await self._decide_again(group)
        except StoreError as error:
            note(_log, Event.STORE_FAILED, f"the store took nothing: {error}", events=len(records))
            self._fail(group, error)
        except Exception as error:  # noqa: BLE001 -- logged; one group fails, not the writer
            _log.exception("appending failed")
            self._fail(group, error)
        else:
            self._advance(records, group[-1].decision.state)
            for request in group:
                _answer(request)

    async def _append(self, data: list[bytes]) -> None:
        with self.appends.one(len(data)):
            await self._in_thread(data)

    async def _in_thread(self, data: list[bytes]) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._store.append, self.durable.seq, data)

    def _advance(self, records: list[Record], state: State) -> None:
        self.durable = state
        if records:
            for listener in self._listeners:
                listener(records, state)

    async def _decide_again(self, group: list[_Request]) -> None:
        """Another server appended first: read what it wrote, then decide on top of it."""
        try:
            await self._catch_up()
        except Exception as error:  # noqa: BLE001 -- logged; one group fails, not the writer
            _log.exception("reading what another server appended failed")
            self._fail(group, error)
        else:
            self._rebase([*group, *self._gathering])

    async def _catch_up(self) -> None:
        loop = asyncio.get_running_loop()
        while page := await loop.run_in_executor(
            self._thread, self._store.read, self.durable.seq, PAGE
        ):
            state = self.durable
            for entry in page:
                state = apply(state, recorded_of(entry))
            self._advance([record_again(entry) for entry in page], state)

    def _fail(self, group: list[_Request], error: Exception) -> None:
        unsure = getattr(error, "happened", False) is None
        what = "it is not known whether this was recorded" if unsure else "nothing was recorded"
        for request in group:
            if not request.answer.done():
                request.answer.set_exception(
                    LedgerUnavailable(f"the ledger cannot write: {error}; {what}, try again")
                )
        self._rebase(self._gathering)

    def _rebase(self, requests: list[_Request]) -> None:
        """Decide `requests`, in order, on the durable state, and gather them."""
        self._ahead = self.durable
        self._gathering = [request for request in requests if self._decide(request)]
        if self._gathering:
            self._arrived.set()


def _answer(request: _Request) -> None:
    if not request.answer.done():
        request.answer.set_result(request.decision)
