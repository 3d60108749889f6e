"""The HTTP protocol of one connection: uvicorn's on httptools, plus what a ledger must know and bound.

uvicorn tells the application neither who connected nor how to cut a connection off, and
bounds neither a request's head nor how slowly it may arrive. This is where all four are done.
"""

from __future__ import annotations

import os
import resource
import socket
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from leasefs.client.peer import peer_of
from leasefs.service.errors_http import error_answer
from leasefs.service.exchange import SPOKEN, Connection, HttpProblem
from leasefs.service.limits import origin_of
from leasefs.service.routes import BATCH_BODY_BYTES
from leasefs.service.stalling import Stalling

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from leasefs.core.errors import OverLimit
    from leasefs.service.limits import Limiter, Place

HEAD_LIMIT_BYTES = 64 * 1024
ARRIVAL_TIMEOUT_S = 30.0
"""How long a request may take to arrive whole, and a new connection to send one."""
MOST_CONNECTIONS = max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 64)
"""More would leave no descriptor for the store; the server raises its soft limit to the hard one."""

LINGER_S = 3.0
"""Who was refused while the body was on its way may send the rest for so long, and so comes to read the refusal."""
STALL_S = 30.0
"""Who takes nothing of an answer for so long is cut off."""
MOST_PIPELINED = 128
"""Requests that wait on one connection for those before them. Nobody of ours sends a second one before the answer."""

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    429: b"Too Many Requests",
    503: b"Service Unavailable",
}


class PipelineFull(Exception):
    """More requests came at once on one connection than may wait there."""


class LedgerProtocol(HttpToolsProtocol):
    """One connection."""

    arrival_timeout_s = ARRIVAL_TIMEOUT_S
    stall_s = STALL_S
    most_connections = MOST_CONNECTIONS

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limiter: Limiter,
        place: Place | None = None,
    ) -> None:
        """`place` is what a TCP connection took before it got this far."""
        super().__init__(config, server_state, app_state, _loop)
        self._limiter = limiter
        self._place = place
        self._arriving = True
        self._head_bytes = 0
        self._in_head = True
        self._flooded = False
        self._passed_over_bytes = 0
        self._bodiless_bytes = 0
        self._has_body = False
        self._arrival_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel who it is."""
        super().connection_made(transport)
        self._stalling = Stalling(transport, self.loop, self.stall_s)
        connection = _connection(transport)
        self.app_state = {**self.app_state, "connection": connection}
        if self._place is None:
            owner = connection.uid in {os.geteuid(), 0}
            self._place = self._limiter.enter(origin_of(connection), owner=owner)
        if len(self.connections) > self.most_connections:
            most = self.most_connections
            self._refuse(HttpProblem(503, "unavailable", f"{most} connections are open already"))
        elif self._place is None:
            self._refuse(self._limiter.too_many_connections(origin_of(connection)))
        else:
            self._watch_arrival()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and leave the place to others."""
        self._stop_watching()
        self._stalling.stop()
        if self._place is not None:
            self._place.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes that are no body, and time what has not arrived whole."""
        self._head_bytes += len(data)
        self._has_body = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._arriving and not self._in_head and not self._has_body:
            self._bodiless_bytes += len(data)
        if self._in_head and self._arriving and self._head_bytes > HEAD_LIMIT_BYTES:
            too_long = f"the request's head is longer than {HEAD_LIMIT_BYTES} bytes"
            self._refuse(HttpProblem(431, "invalid", too_long))
        elif self._bodiless_bytes > HEAD_LIMIT_BYTES:
            self._end_of_no_body()
        elif self._arriving:
            self._watch_arrival()
        else:
            self._stop_watching()

    def on_message_begin(self) -> None:
        """A request begins."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self._flooded = True
            raise PipelineFull  # ends the parsing of what has come
        self._arriving = self._in_head = self._has_body = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. What follows a body is none (RFC 9110, 6.5.1): who asks is known by then, and it would be kept."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its head is here."""
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body. What comes after a refusal is passed over, so that its sender hears it; but not for ever."""
        self._has_body = True
        self._bodiless_bytes = 0
        if self._is_answered():
            self._passed_over_bytes += len(body)
            if self._passed_over_bytes > BATCH_BODY_BYTES:
                self.transport.close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is here."""
        self._arriving = False
        self._head_bytes = self._passed_over_bytes = self._bodiless_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is out, perhaps before the body was in."""
        super().on_response_complete()
        self._stalling.watch()
        if self._is_answered():
            self._stop_watching()
            self._arrival_timer = self.loop.call_later(LINGER_S, self._too_slow)

    def pause_writing(self) -> None:
        """More is to be sent than the peer takes."""
        super().pause_writing()
        self._stalling.watch()

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed is answered as every other refusal is. A flood is not: answers are due before it."""
        if self._flooded:
            self.transport.abort()
            return
        self._refuse(HttpProblem(400, "invalid", "this is not HTTP/1.1 as RFC 9112 has it"))

    def _refuse(self, problem: HttpProblem | OverLimit) -> None:
        answer = error_answer(problem)
        headers = [
            *answer.headers,
            (b"content-length", b"%d" % len(answer.body)),
            (b"connection", b"close"),
            SPOKEN,
        ]
        head = b"".join(b"%b: %b\r\n" % header for header in headers)
        status = b"%d %b" % (answer.status, _REASONS[answer.status])
        self.transport.write(b"HTTP/1.1 %b\r\n%b\r\n%b" % (status, head, answer.body))
        self.transport.close()
        self._stalling.watch()

    def _end_of_no_body(self) -> None:
        """A trailer, or what is said of a chunk, that does not end: the parser keeps all of it."""
        if self._is_answered():
            self.transport.close()
            return
        too_long = f"more than {HEAD_LIMIT_BYTES} bytes of trailers, or about a chunk"
        self._refuse(HttpProblem(431, "invalid", too_long))

    def _is_answered(self) -> bool:
        """Whether the request that is arriving got its answer already."""
        return bool(self._arriving and not self._in_head and self.cycle.response_complete)

    def _watch_arrival(self) -> None:
        if self._arrival_timer is None:
            self._arrival_timer = self.loop.call_later(self.arrival_timeout_s, self._too_slow)

    def _stop_watching(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _too_slow(self) -> None:
        self._arrival_timer = None
        if self._is_answered():
            self.transport.close()
        elif not self.transport.is_closing():
            too_slow = f"no whole request came within {self.arrival_timeout_s:g} s"
            self._refuse(HttpProblem(408, "invalid", too_slow))


def _connection(transport: asyncio.Transport) -> Connection:
    """Who connected: the kernel says which local user (unix(7)), or from where."""
    peer = transport.get_extra_info("socket")
    if peer.family != socket.AF_UNIX:
        address = str(transport.get_extra_info("peername")[0])
        return Connection(uid=None, pid=None, abort=transport.abort, address=address)
    pid, uid, _ = peer_of(peer)
    return Connection(uid=uid, pid=pid, abort=transport.abort)
