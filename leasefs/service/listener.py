"""Accepts connections and lets go of them in order: uvicorn's protocol without uvicorn's server.

uvicorn's own server wakes ten times a second, opens its own sockets, and ends itself by the signal it got; a
ledger sleeps when idle, keeps its socket under a lock, and exits 0 when told to stop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from uvicorn.config import Config
from uvicorn.server import ServerState

from leasefs.core.exposition import gauge
from leasefs.service.peer import LedgerProtocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from leasefs.core.exposition import Family
    from leasefs.service.app import LedgerApp

KEEP_ALIVE_S = 30
_log = logging.getLogger(__name__)


class Listener:
    """The connections of one listening socket."""

    def __init__(self, app: LedgerApp, listening: socket.socket) -> None:
        self._socket = listening
        self._state = ServerState()
        self._server: asyncio.AbstractServer | None = None
        self._config = Config(
            app,
            http=LedgerProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._state.connections)

    def families(self) -> Iterator[Family]:
        """For the monitor."""
        yield gauge("leasefs_http_connections", "Open connections.", self.connections)

    async def start(self) -> None:
        """Begin to accept."""
        self._config.load()
        loop = asyncio.get_running_loop()

        def protocol() -> LedgerProtocol:
            return LedgerProtocol(self._config, self._state, {}, loop)

        self._server = await loop.create_unix_server(protocol, sock=self._socket, backlog=4096)

    async def stop(self, patience_s: float) -> None:
        """Accept no more, let requests that have begun finish for `patience_s` seconds, close the rest."""
        if self._server is None:
            return
        await asyncio.sleep(
            0
        )  # connections that the kernel has queued already are accepted before this
        self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = set(self._state.tasks)
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=patience_s)
            if unfinished:
                _log.warning("%d requests did not finish in %g s", len(unfinished), patience_s)
            for task in unfinished:
                task.cancel()
        for connection in list(self._state.connections):
            connection.transport.close()
