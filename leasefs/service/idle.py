"""When an embedded ledger may go: nobody holds, nobody waits, nobody is connected, and that for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leasefs.core.views import is_live

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.core.clock import Clock
    from leasefs.core.records import Lease
    from leasefs.core.state import State

LOOK_EVERY_S = 1.0


def in_use(state: State, now_s: float) -> bool:
    """Whether a live lease, a live session or a waiter needs the ledger.

    A lapsed lease does not: it stays in the log, and the ledger that starts next gives it back (P5). Nor does a
    freeze: whoever would have to be stopped by it starts the ledger, and that knows of it.
    """
    return (
        len(state.waiters) > 0
        or any(_is_live(lease, now_s) for lease in state.leases.values())
        or any(is_live(session, now_s) for session in state.sessions.values())
    )


def _is_live(lease: Lease, now_s: float) -> bool:
    return not lease.lapsed(now_s) and not lease.claim.frozen_by


class IdleWatch:
    """Tells when nothing has needed the ledger for `idle_s` seconds."""

    def __init__(self, clock: Clock, idle_s: float, needed: Callable[[], bool]) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._needed = needed
        self._needed_at_s = clock.now_s()

    def over(self) -> bool:
        """Look once: whether the ledger may go now."""
        now_s = self._clock.now_s()
        if self._needed():
            self._needed_at_s = now_s
        return now_s - self._needed_at_s >= self._idle_s

    async def wait(self) -> None:
        """Look again and again until it may go."""
        while not self.over():  # noqa: ASYNC110 -- leases run out and sessions fall silent without a sign
            await asyncio.sleep(min(LOOK_EVERY_S, self._idle_s))
