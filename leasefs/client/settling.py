"""Learning from the ledger what is not known: whenever woken, and again, ever less often, while it does not answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from leasefs.client.pauses import Pauses
from leasefs.core.errors import LeasefsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_RETRY = Pauses(0.1, 5.0)


class Settling:
    """`learn` is called again until it raises nothing; `what` says in the log what is not known yet."""

    def __init__(self, learn: Callable[[], Awaitable[None]], what: str) -> None:
        self._learn = learn
        self._what = what
        self._woken = trio.Event()
        self._failures = 0

    def wake(self) -> None:
        """Something is not known."""
        self._woken.set()

    async def run(self) -> None:
        """Learn, for ever."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            try:
                await self._learn()
            except LeasefsError as error:
                log.info("%s is not known yet: %s", self._what, error.message)
                self._woken.set()
                await trio.sleep(_RETRY.after_s(self._failures))
                self._failures += 1
            else:
                self._failures = 0
