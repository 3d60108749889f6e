"""The mount's transport: HTTP/1.1 by h11 over trio sockets, a few connections kept open.

Every request may be sent twice (keys and session ids make it act once), so one that fails on a kept
connection, which the ledger may have closed meanwhile, is tried again on a new one.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from typing import TYPE_CHECKING

import h11
import trio

from leasefs.client import api, speaking
from leasefs.client.address import Address, parse_url
from leasefs.client.http_reader import MAX_BODY_BYTES
from leasefs.client.peer import may_be_ledger, peer_of
from leasefs.client.sse import EventReader
from leasefs.client.unreachable import connect_failed, silent, vanished, wrong_owner
from leasefs.core import protocol
from leasefs.core.errors import LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leasefs.client.ids import Credentials
    from leasefs.client.sse import StreamEvent

US = protocol.ours(protocol.MOUNT)
KEPT_CONNECTIONS = 4
CONNECT_TIMEOUT_S = 5.0
_CHUNK = 65536
_EVENT_STREAM = "text/event-stream"


class Broken(Exception):
    """The connection ended, or stopped speaking HTTP, before the answer was whole."""


class Connection:
    """One connection to the ledger, with at most one request on its way."""

    def __init__(self, stream: trio.SocketStream, address: Address) -> None:
        self._stream = stream
        self._address = address
        self._h11 = h11.Connection(h11.CLIENT)
        self.spoken: str | None = None

    async def ask(self, call: api.Call, credentials: Credentials, accept: str) -> int:
        """Send the request and return the answer's status; `spoken` is its protocol header. Raises Broken."""
        body = api.encode(call)
        headers = [
            ("Host", self._address.host or "leasefs"),
            ("Accept", accept),
            (protocol.HEADER, US.header),
        ]
        if call.body is not None:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if call.needs_session:
            headers.append(("Authorization", credentials.authorization))
        request = h11.Request(method=call.method, target=call.path, headers=headers)
        data = [self._h11.send(event) for event in (request, h11.Data(body), h11.EndOfMessage())]
        # A refusal may come before the whole request has gone out; it is heard all the same.
        with contextlib.suppress(trio.BrokenResourceError):
            await self._stream.send_all(b"".join(part for part in data if part))
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                self.spoken = _spoken(event)
                return int(event.status_code)

    async def next_piece(self) -> bytes:
        """The next piece of the answer's body, empty at its end. Raises Broken."""
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if isinstance(event, h11.Data) and event.data:
                return bytes(event.data)
        return b""

    def reusable(self) -> bool:
        """Make ready for another request, if the ledger leaves the connection open."""
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            return True
        return False

    def close(self) -> None:
        """Close without a word; never blocks."""
        self._stream.socket.close()

    async def _next(self) -> h11.Event:
        while True:
            try:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    self._h11.receive_data(await self._stream.receive_some(_CHUNK))
                    continue
            except (
                trio.BrokenResourceError,
                trio.ClosedResourceError,
                h11.RemoteProtocolError,
            ) as error:
                raise Broken from error
            if isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            raise Broken


class TrioLink:
    """A `Transport` to one address with one session's credentials."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.address = parse_url(url)
        self.credentials = credentials
        self._idle: deque[Connection] = deque()

    async def send(self, call: api.Call, *, timeout_s: float) -> api.Body:
        """See `Transport.send`."""
        timeout_s += call.patience_s
        with trio.move_on_after(timeout_s):
            return speaking.answer(US, call, *await self._exchange(call))
        raise silent(self.address, timeout_s)

    @contextlib.asynccontextmanager
    async def stream(
        self, call: api.Call, *, silence_s: float
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """See `Transport.stream`. The stream has a connection of its own."""
        connection = await self._connect()
        try:
            with trio.move_on_after(silence_s) as patience:
                status = await connection.ask(call, self.credentials, _EVENT_STREAM)
                if status != 200:
                    whole = await _whole(connection)
                    speaking.answer(US, call, connection.spoken, status, whole)
                speaking.require_understanding(US, call, connection.spoken)
            if patience.cancelled_caught:
                raise silent(self.address, silence_s)
            yield self._events(connection, silence_s)
        except Broken as error:
            raise vanished(self.address) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Close all kept connections."""
        while self._idle:
            self._idle.pop().close()

    async def _events(self, connection: Connection, silence_s: float) -> AsyncIterator[StreamEvent]:
        reader = EventReader()
        while True:
            piece = None
            with trio.move_on_after(silence_s):
                try:
                    piece = await connection.next_piece()
                except Broken as error:
                    raise vanished(self.address) from error
            if piece is None:
                raise silent(self.address, silence_s)
            if not piece:
                return
            for event in reader.feed(piece):
                yield event

    async def _exchange(self, call: api.Call) -> tuple[str | None, int, bytes]:
        while self._idle:
            with contextlib.suppress(Broken):
                return await self._on(self._idle.pop(), call)
        try:
            return await self._on(await self._connect(), call)
        except Broken as error:
            raise connect_failed(self.address, ConnectionResetError()) from error

    async def _on(self, connection: Connection, call: api.Call) -> tuple[str | None, int, bytes]:
        kept = False
        try:
            status = await connection.ask(call, self.credentials, "application/json")
            body = await _whole(connection)
            kept = len(self._idle) < KEPT_CONNECTIONS and connection.reusable()
            if kept:
                self._idle.append(connection)
            return connection.spoken, status, body
        finally:
            if not kept:
                connection.close()

    async def _connect(self) -> Connection:
        address = self.address
        with trio.move_on_after(CONNECT_TIMEOUT_S):
            try:
                stream = await _open(address)
            except OSError as error:
                raise connect_failed(address, error) from error
            if address.socket_path:
                uid = peer_of(stream.socket).uid
                if not may_be_ledger(uid):
                    stream.socket.close()
                    raise wrong_owner(address, uid)
            return Connection(stream, address)
        raise connect_failed(address, TimeoutError())


def _spoken(head: h11.Response) -> str | None:
    for name, value in head.headers:
        if name == speaking.HEADER_BYTES:
            return value.decode("latin-1")
    return None


async def _open(address: Address) -> trio.SocketStream:
    if address.socket_path:
        connection = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            await connection.connect(address.socket_path)
        except BaseException:
            connection.close()
            raise
        return trio.SocketStream(connection)
    return await trio.open_tcp_stream(address.host, address.port)


async def _whole(connection: Connection) -> bytes:
    parts, length = [], 0
    while part := await connection.next_piece():
        parts.append(part)
        length += len(part)
        if length > MAX_BODY_BYTES:
            raise LedgerUnavailable(f"the answer is longer than {MAX_BODY_BYTES} bytes")
    return b"".join(parts)
