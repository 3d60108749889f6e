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
from leasefs.service.limits import Limiter
from leasefs.service.peer import LedgerProtocol
from leasefs.service.tcp import TcpDoor

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence

    from leasefs.core.exposition import Family
    from leasefs.service.app import LedgerApp
    from leasefs.service.limits import Place
    from leasefs.service.tls import Tls

KEEP_ALIVE_S = 30
_log = logging.getLogger(__name__)


class Listener:
    """The connections of one ledger: those to its Unix socket, and those that come by TCP."""

    def __init__(
        self,
        app: LedgerApp,
        listening: socket.socket,
        limiter: Limiter | None = None,
        tcp: Sequence[socket.socket] = (),
        tls: Tls | None = None,
    ) -> None:
        """Listening sockets; those of `tcp` speak `tls` only."""
        self._socket = listening
        self._limiter = limiter or Limiter()
        self._door = (
            None if tls is None else TcpDoor(tcp, tls, self._limiter, self._protocol, self._room)
        )
        self._state = ServerState()
        self._server: asyncio.AbstractServer | None = None
        self._config = Config(
            app,
            http=LedgerProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            # Of what is no HTTP, or asks for another protocol, uvicorn writes a line or two each: anybody could fill the log.
            log_level=logging.ERROR,
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
        yield from self._limiter.families()
        if self._door is not None:
            yield from self._door.families()

    async def start(self) -> None:
        """Begin to accept."""
        self._config.load()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            self._protocol, sock=self._socket, backlog=4096
        )
        if self._door is not None:
            self._door.start()

    def _protocol(self, place: Place | None = None) -> LedgerProtocol:
        loop = asyncio.get_running_loop()
        return LedgerProtocol(
            self._config, self._state, {}, loop, limiter=self._limiter, place=place
        )

    def _room(self) -> int:
        """How many more may come by TCP: some descriptors are left to who is on this machine."""
        most = LedgerProtocol.most_connections
        return most - most // 8 - self.connections

    async def stop(self, patience_s: float) -> None:
        """Accept no more, let requests that have begun finish for `patience_s` seconds, close the rest."""
        if self._server is None:
            return
        await asyncio.sleep(
            0
        )  # connections that the kernel has queued already are accepted before this
        self._server.close()
        if self._door is not None:
            await self._door.stop()
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
