"""The mount's transport: HTTP/1.1 by h11 over trio sockets, a few connections kept open.

Every request may be sent twice (keys and session ids make it act once), so one that fails on a kept
connection, which the ledger may have closed meanwhile, is tried again on a new one.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING

import h11
import trio

from leasefs.client import api, limited, speaking
from leasefs.client.address import Address, parse_url
from leasefs.client.http_reader import MAX_BODY_BYTES
from leasefs.client.proof import Proof
from leasefs.client.sse import EventReader
from leasefs.client.tokens import TokenSource
from leasefs.client.trio_way import Stream, Way, close
from leasefs.client.unreachable import connect_failed, silent, vanished
from leasefs.core import protocol
from leasefs.core.errors import LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leasefs.client.ids import Credentials
    from leasefs.client.sse import StreamEvent

US = protocol.ours(protocol.MOUNT)
KEPT_CONNECTIONS = 4
_CHUNK = 65536
_UNAUTHORIZED = 401
_EVENT_STREAM = "text/event-stream"


class Broken(Exception):
    """The connection ended, or stopped speaking HTTP, before the answer was whole."""


class Connection:
    """One connection to the ledger, with at most one request on its way."""

    def __init__(self, stream: Stream, address: Address) -> None:
        self._stream = stream
        self._address = address
        self._h11 = h11.Connection(h11.CLIENT)
        self.spoken: str | None = None

    async def ask(self, call: api.Call, proof: str | None, accept: str) -> int:
        """Send the request and return the answer's status; `spoken` is its protocol header. Raises Broken."""
        body = api.encode(call)
        headers = [
            ("Host", self._address.authority),
            ("Accept", accept),
            (protocol.HEADER, US.header),
        ]
        if call.body is not None:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if proof is not None:
            headers.append(("Authorization", proof))
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
        close(self._stream)

    async def _next(self) -> h11.Event:
        while True:
            try:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    self._h11.receive_data(bytes(await self._stream.receive_some(_CHUNK)))
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
        self._proof = Proof(credentials, TokenSource(self.address))
        self._way = Way(self.address)
        self._idle: deque[Connection] = deque()

    async def send(self, call: api.Call, *, timeout_s: float) -> api.Body:
        """See `Transport.send`."""
        timeout_s += call.patience_s
        with trio.move_on_after(timeout_s) as time_left:
            while True:
                spoken, status, body = await self._exchange(call)
                left_s = time_left.deadline - trio.current_time()
                wait_s = limited.wait_s(status, body, left_s)
                if wait_s is not None:
                    await trio.sleep(wait_s)
                elif not await self._may_try_again(status, call):
                    if status == _UNAUTHORIZED and (lacking := self._proof.lacking(call)):
                        raise lacking
                    return speaking.answer(US, call, spoken, status, body)
        raise silent(self.address, timeout_s)

    @contextlib.asynccontextmanager
    async def stream(
        self, call: api.Call, *, silence_s: float
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """See `Transport.stream`. The stream has a connection of its own."""
        connection = await self._connect()
        try:
            with trio.move_on_after(silence_s) as patience:
                status = await connection.ask(call, self._proof.header(call), _EVENT_STREAM)
                if await self._may_try_again(status, call):
                    connection.close()
                    connection = await self._connect()
                    status = await connection.ask(call, self._proof.header(call), _EVENT_STREAM)
                if status != 200:
                    whole = await _whole(connection)
                    speaking.answer(US, call, connection.spoken, status, whole)
                speaking.require_understanding(US, call, connection.spoken)
            if patience.cancelled_caught:
                raise silent(self.address, silence_s)
            yield self._events(connection, silence_s)
        except Broken as error:
            raise self._way.broken(error, vanished(self.address)) from error
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
                    raise self._way.broken(error, vanished(self.address)) from error
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
            gone = connect_failed(self.address, ConnectionResetError())
            raise self._way.broken(error, gone) from error

    async def _on(self, connection: Connection, call: api.Call) -> tuple[str | None, int, bytes]:
        kept = False
        try:
            status = await connection.ask(call, self._proof.header(call), "application/json")
            body = await _whole(connection)
            kept = len(self._idle) < KEPT_CONNECTIONS and connection.reusable()
            if kept:
                self._idle.append(connection)
            return connection.spoken, status, body
        finally:
            if not kept:
                connection.close()

    async def _connect(self) -> Connection:
        return Connection(await self._way.open(), self.address)

    async def _may_try_again(self, status: int, call: api.Call) -> bool:
        """Whether it was refused for what it showed, and there is something else to show."""
        if status != _UNAUTHORIZED:
            return False
        return await trio.to_thread.run_sync(self._proof.refused, call, abandon_on_cancel=True)


def _spoken(head: h11.Response) -> str | None:
    for name, value in head.headers:
        if name == speaking.HEADER_BYTES:
            return value.decode("latin-1")
    return None


async def _whole(connection: Connection) -> bytes:
    parts, length = [], 0
    while part := await connection.next_piece():
        parts.append(part)
        length += len(part)
        if length > MAX_BODY_BYTES:
            raise LedgerUnavailable(f"the answer is longer than {MAX_BODY_BYTES} bytes")
    return b"".join(parts)
