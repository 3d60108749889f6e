"""Signs of life and a line of state, for the supervisor of a ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.client.supervisor import Supervisor
    from leasefs.service.writer import LedgerWriter

LOOK_EVERY_S = 10.0


class Watched:
    """Tells a supervisor that a ledger is ready, then how it does.

    A sign of life goes out only from the loop itself and only after the store's thread has turned: a loop that hangs,
    and an append that never comes back from the disk, both end in silence.
    """

    def __init__(
        self, supervisor: Supervisor, writer: LedgerWriter, connections: Callable[[], int]
    ) -> None:
        self._supervisor = supervisor
        self._writer = writer
        self._connections = connections

    async def run(self) -> None:
        """Until cancelled. Requests must be taken already."""
        supervisor = self._supervisor
        if not supervisor.listens:
            await asyncio.Event().wait()
        supervisor.ready(self._words())
        watchdog_s = supervisor.watchdog_s
        pause_s = min(LOOK_EVERY_S, watchdog_s / 3) if watchdog_s else LOOK_EVERY_S
        while True:
            await self._writer.turned()
            if watchdog_s:
                supervisor.alive()
            supervisor.status(self._words())
            await asyncio.sleep(pause_s)

    def _words(self) -> str:
        state = self._writer.durable
        return (
            f"{len(state.leases)} leases, {len(state.waiters)} waiting, {len(state.sessions)} sessions, "
            f"{self._connections()} connections, event {state.seq}"
        )
