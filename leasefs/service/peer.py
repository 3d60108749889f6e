"""The HTTP protocol of one connection: uvicorn's on httptools, plus what a ledger must know and bound.

uvicorn tells the application neither who connected (unix(7), SO_PEERCRED) nor how to cut a connection off, and
bounds neither a request's head nor how slowly it may arrive. This is where all four are done.
"""

from __future__ import annotations

import resource
import socket
import struct
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from leasefs.service.errors_http import error_body
from leasefs.service.exchange import SPOKEN, Connection, HttpProblem
from leasefs.service.wire_json import encode

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

HEAD_LIMIT_BYTES = 64 * 1024
ARRIVAL_TIMEOUT_S = 30.0
"""How long a request may take to arrive whole, and a new connection to send one."""
MOST_CONNECTIONS = max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 64)
"""More would leave no descriptor for the store; the server raises its soft limit to the hard one."""

_UCRED = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class LedgerProtocol(HttpToolsProtocol):
    """One connection."""

    arrival_timeout_s = ARRIVAL_TIMEOUT_S
    most_connections = MOST_CONNECTIONS

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._arriving = True
        self._head_bytes = 0
        self._in_head = True
        self._arrival_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel who it is."""
        super().connection_made(transport)
        pid, uid, _ = _UCRED.unpack(
            transport.get_extra_info("socket").getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size
            )
        )
        connection = Connection(uid=uid, pid=pid, abort=transport.abort)
        self.app_state = {**self.app_state, "connection": connection}
        if len(self.connections) > self.most_connections:
            self._refuse(
                503, "unavailable", f"{self.most_connections} connections are open already"
            )
        else:
            self._watch_arrival()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the head's bytes, and time what has not arrived whole."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._arriving and self._head_bytes > HEAD_LIMIT_BYTES:
            self._refuse(
                431, "invalid", f"the request's head is longer than {HEAD_LIMIT_BYTES} bytes"
            )
        elif self._arriving:
            self._watch_arrival()
        else:
            self._stop_watching()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._arriving = self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is here."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it is here."""
        self._arriving = False
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed is answered as every other refusal is."""
        self._refuse(400, "invalid", "this is not HTTP/1.1 as RFC 9112 has it")

    def _refuse(self, status: int, code: str, message: str) -> None:
        body = encode(error_body(HttpProblem(status, code, message)))
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n%b: %b\r\n\r\n%b"
            % (status, _REASONS[status], len(body), *SPOKEN, body)
        )
        self.transport.close()

    def _watch_arrival(self) -> None:
        if self._arrival_timer is None:
            self._arrival_timer = self.loop.call_later(self.arrival_timeout_s, self._too_slow)

    def _stop_watching(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _too_slow(self) -> None:
        self._arrival_timer = None
        if not self.transport.is_closing():
            self._refuse(
                408, "invalid", f"no whole request came within {self.arrival_timeout_s:g} s"
            )
