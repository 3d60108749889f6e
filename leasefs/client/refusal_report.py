"""Telling the ledger what the mount refused (P11), without ever making a write wait."""

from __future__ import annotations

import errno
import logging
from collections import deque
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs.core.paths import text

if TYPE_CHECKING:
    from leasefs.client.transport import Transport
    from leasefs.core.clock import Clock
    from leasefs.core.policy import RefusalRecord

log = logging.getLogger(__name__)

KEPT = 1000
IN_ONE_REPORT = 500
# As JSON a byte of a path is six characters at most, and the ledger takes 1 MiB in one request.
PATH_CHARACTERS_IN_ONE_REPORT = 100_000
EVERY_S = 1.0
_RETRY_S = 5.0
_TIMEOUT_S = 5.0


class RefusalReport:
    """A bounded queue; the oldest go first when the ledger is away for long, and are counted."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._queue: deque[api.Body] = deque(maxlen=KEPT)
        self._dropped = 0
        self._some = trio.Event()

    def add(self, refusal: RefusalRecord) -> None:
        """Queue one. Never blocks."""
        if len(self._queue) == KEPT:
            self._dropped += 1
        self._queue.append(_told(refusal))
        self._some.set()

    async def run(self) -> None:
        """Report at most once a second, for ever."""
        while True:
            if not self._queue:
                self._some = trio.Event()
                await self._some.wait()
            reported = await self._report()
            await trio.sleep(EVERY_S if reported else _RETRY_S)

    async def flush(self) -> None:
        """One last report of what is queued."""
        if self._queue:
            await self._report()

    async def _report(self) -> bool:
        batch = self._taken()
        dropped, self._dropped = self._dropped, 0
        told = [self._drop_note(dropped), *batch] if dropped else batch
        try:
            await self._transport.send(api.report_refusals(told), timeout_s=_TIMEOUT_S)
        except InvalidRequest as error:
            log.warning("the ledger does not take these %d refusals: %s", len(told), error.message)
        except LeasefsError as error:
            log.info("refusals not reported yet: %s", error.message)
            self._put_back(batch, dropped)
            return False
        return True

    def _taken(self) -> list[api.Body]:
        """The oldest, as many as fit into one request."""
        batch: list[api.Body] = []
        room = PATH_CHARACTERS_IN_ONE_REPORT
        while self._queue and len(batch) < IN_ONE_REPORT and room > 0:
            batch.append(self._queue.popleft())
            room -= len(batch[-1]["path"])
        return batch

    def _put_back(self, batch: list[api.Body], dropped: int) -> None:
        room = KEPT - len(self._queue)
        lost = max(0, len(batch) - room)
        self._dropped += dropped + lost
        self._queue.extendleft(reversed(batch[lost:]))

    def _drop_note(self, dropped: int) -> api.Body:
        return {
            "path": "",
            "op": "report",
            "reason": f"{dropped} earlier refusals were dropped while the ledger was away",
            "errno": "",
            "pid": 0,
            "program": "",
            "wall_s": self._clock.wall_s(),
        }


def _told(refusal: RefusalRecord) -> api.Body:
    """As `WriteRefused` of leasefs.core.events."""
    # A ledger from before it knew what is observed takes nothing that it does not know.
    observed = {"observed": True} if refusal.observed else {}
    return {
        "path": text(refusal.path),
        "op": refusal.op.value,
        "reason": refusal.reason.value,
        "errno": errno.errorcode.get(refusal.errno, str(refusal.errno)),
        "pid": refusal.pid,
        "program": refusal.program,
        "wall_s": refusal.wall_s,
        **observed,
    }
