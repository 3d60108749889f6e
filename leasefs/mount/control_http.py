"""A small HTTP/1.1 server on a Unix socket, for the few requests of the shells inside one mount.

h11 does the protocol, trio the rest; it knows nothing of leases. Who connects is told by the kernel.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

import h11
import trio

from leasefs.client.peer import Peer, peer_of
from leasefs.client.sse import KEEP_ALIVE
from leasefs.core import protocol
from leasefs.core.errors import InvalidRequest, LeasefsError, LedgerUnavailable
from leasefs.mount.control_room import Room

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from leasefs.client.sse import StreamEvent

log = logging.getLogger(__name__)

US = protocol.ours(protocol.MOUNT)
MAX_BODY_BYTES = 1 << 20
HEAD_LIMIT_BYTES = 64 * 1024
MAX_QUERY_FIELDS = 32
# A request that does not come to its end, and a connection without one, are not waited for longer.
REQUEST_TIMEOUT_S = 30.0
CONNECTIONS = 256
# Who connects while so many wait to be let in is told to try again (EAGAIN, unix(7)); the kernel allows no more.
BACKLOG = 4096
# Who takes nothing of an answer for so long is cut off.
STALL_S = 30.0
KEEP_ALIVE_S = 15.0
_CHUNK = 65536


class Request(NamedTuple):
    """One request. `target` is the path with its query as it came, for passing on."""

    method: str
    path: str
    query: dict[str, str]
    target: str
    wants_stream: bool
    body: dict[str, Any] | None
    peer: Peer


class Streaming(NamedTuple):
    """An answer without end: what these events say, until they end or the peer goes away."""

    events: AsyncGenerator[StreamEvent, None]


class Told(NamedTuple):
    """An answer whose sender wants to know if it went out: `heard` is called with that, once."""

    status: int
    body: dict[str, Any]
    heard: Callable[[bool], None]


class Text(NamedTuple):
    """An answer that is no JSON."""

    text: str
    content_type: str = "text/plain; charset=utf-8"


Answer = tuple[int, dict[str, Any]] | Told | Streaming | Text


class TooLarge(InvalidRequest):
    """The body is larger than any request that is served here."""


async def serve_http(
    listener: trio.SocketListener,
    handler: Callable[[Request], Awaitable[Answer]],
    refusal: Callable[[LeasefsError], tuple[int, dict[str, Any]]],
) -> None:
    """Answer requests until cancelled. `refusal` puts a LeasefsError into status and body.

    Any other exception is a fault of ours: it is logged and answered with 500. It concerns one request,
    and the mount of an agent that works goes on.
    """
    room = Room(CONNECTIONS)

    async def serve_one(stream: trio.SocketStream) -> None:
        with room.place() as free:
            try:
                conversation = _Conversation(stream, handler, refusal, room)
                await (conversation.run() if free else conversation.turn_away())
            except* (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                pass  # the peer is gone, and nobody else is concerned; a stream's nursery groups it
            except* Exception:
                log.exception("a conversation on the control socket ended by a fault")
            finally:
                stream.socket.close()

    await trio.serve_listeners(serve_one, [listener])


class _Conversation:
    def __init__(
        self,
        stream: trio.SocketStream,
        handler: Callable[[Request], Awaitable[Answer]],
        refusal: Callable[[LeasefsError], tuple[int, dict[str, Any]]],
        room: Room,
    ) -> None:
        self._stream = stream
        self._room = room
        self._handler = handler
        self._refusal = refusal
        self._peer = peer_of(stream.socket)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self._method = ""

    async def run(self) -> None:
        """One request after another, until one side has had enough."""
        while True:
            request: Request | None = None
            with (
                trio.move_on_after(REQUEST_TIMEOUT_S) as waiting,
                self._room.silent(waiting),
            ):
                try:
                    request = await self._read()
                except h11.RemoteProtocolError as error:
                    await self._give_up(error)
                    return
                except LeasefsError as error:
                    await self._say(*self._refusal(error))
                    return
            if request is None:
                return
            await self._respond(request)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def turn_away(self) -> None:
        """There is no room: everybody who has a place is being answered."""
        full = LedgerUnavailable(f"{CONNECTIONS} connections of this mount are being answered")
        await self._say(*self._refusal(full))

    async def _respond(self, request: Request) -> None:
        try:
            answer = await self._handler(request)
            if isinstance(answer, Told):
                await self._tell(answer)
                return
            if isinstance(answer, Text):
                await self._say_bytes(200, answer.text.encode(), answer.content_type, [])
                return
            if not isinstance(answer, Streaming):
                await self._say(*answer)
                return
        except LeasefsError as error:
            await self._say(*self._refusal(error))
            return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            await self._say(500, _fault(error))
            return
        await self._stream_events(answer.events)

    async def _read(self) -> Request | None:
        """The next request, or None if the peer has no more."""
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        self._method = head.method.decode("ascii")
        _require_one_length(head)
        raw = b""
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                raw += event.data
            if len(raw) > MAX_BODY_BYTES:
                raise TooLarge(f"the body is larger than {MAX_BODY_BYTES} bytes")
        target = head.target.decode("ascii")
        path, _, query = target.partition("?")
        _require_understanding(head, path)
        return Request(
            method=self._method,
            path=path,
            query=_fields(query),
            target=target,
            wants_stream=_wants_stream(head),
            body=_json(raw),
            peer=self._peer,
        )

    async def _event(self) -> h11.Event | None:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._stream.receive_some(_CHUNK))
            elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            else:
                return None

    async def _give_up(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state is h11.SEND_RESPONSE or self._http.our_state is h11.IDLE:
            status, body = self._refusal(InvalidRequest(f"this is not HTTP/1.1: {error}"))
            hint = error.error_status_hint
            # What we do not understand is the client's fault, a coding that h11 does not know (501) too.
            await self._say(hint if 400 <= hint < 500 else status, body)

    async def _say(self, status: int, body: dict[str, Any]) -> None:
        more = _allowed(body) if status == 405 else []
        await self._say_bytes(status, json.dumps(body).encode(), "application/json", more)

    async def _say_bytes(
        self, status: int, data: bytes, content_type: str, more: list[tuple[str, str]]
    ) -> None:
        headers = [
            ("Content-Type", content_type),
            ("Content-Length", str(len(data))),
            (protocol.HEADER, US.header),
            *more,
        ]
        # The answer to HEAD has no body, whatever its length says (RFC 9110, 9.3.2).
        shown = b"" if self._method == "HEAD" else data
        await self._send(
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=shown),
            h11.EndOfMessage(),
        )

    async def _tell(self, answer: Told) -> None:
        heard = False
        try:
            await self._say(answer.status, answer.body)
            heard = True
        finally:
            answer.heard(heard)

    async def _send(self, *events: h11.Event) -> None:
        """Raises TooSlowError: the peer takes nothing."""
        left = memoryview(b"".join(self._http.send(event) or b"" for event in events))
        while left:
            with trio.fail_after(STALL_S):
                left = left[await self._stream.socket.send(left) :]

    async def _stream_events(self, events: AsyncGenerator[StreamEvent, None]) -> None:
        headers = [
            ("Content-Type", "text/event-stream"),
            ("Cache-Control", "no-store"),
            (protocol.HEADER, US.header),
        ]
        await self._send(h11.Response(status_code=200, headers=headers))
        lock = trio.Lock()

        async def send(text: str) -> None:
            async with lock:
                await self._send(h11.Data(data=text.encode()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_comment, send)
            nursery.start_soon(self._until_gone, nursery.cancel_scope)
            async with contextlib.aclosing(events):
                async for event in events:
                    await send(_as_sse(event))
            nursery.cancel_scope.cancel()
        await self._send(h11.EndOfMessage())

    async def _until_gone(self, scope: trio.CancelScope) -> None:
        """Whoever reads a stream has nothing more to say; what comes is the end."""
        while await self._stream.receive_some(_CHUNK):
            pass
        scope.cancel()


def _allowed(body: dict[str, Any]) -> list[tuple[str, str]]:
    """What a 405 has to say (RFC 9110, 15.5.6)."""
    return [("Allow", ", ".join(body["error"]["details"]["allow"]))]


def _fault(error: Exception) -> dict[str, Any]:
    message = f"the mount failed at this: {type(error).__name__}; its log says more"
    return {"error": {"code": "unexpected", "message": message, "details": {}}}


async def _comment(send: Callable[[str], Awaitable[None]]) -> None:
    while True:
        await trio.sleep(KEEP_ALIVE_S)
        await send(": alive\n\n")


def _as_sse(event: StreamEvent) -> str:
    number = f"id: {event.seq}\n" if event.seq else ""
    if event.type == KEEP_ALIVE:
        return f": {KEEP_ALIVE}\n{number}\n"
    return f"{number}event: {event.type}\ndata: {json.dumps(event.data)}\n\n"


def _fields(query: str) -> dict[str, str]:
    """Raises InvalidRequest: one is there twice, or there are too many."""
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="surrogateescape", max_num_fields=MAX_QUERY_FIELDS
        )
    except ValueError as error:
        raise InvalidRequest(f"the query string does not fit: {error}") from error
    if len(fields := dict(pairs)) != len(pairs):
        raise InvalidRequest("the query string names a parameter twice")
    return fields


def _require_one_length(head: h11.Request) -> None:
    """Raises InvalidRequest for a body of two lengths: who stands between could see another request in it (RFC 9112, 6.3)."""
    names = [name for name, _ in head.headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise InvalidRequest("a request has a Content-Length or a Transfer-Encoding, not both")


def _require_understanding(head: h11.Request, path: str) -> None:
    """Raises ProtocolMismatch, or InvalidRequest for a version that cannot be read."""
    if path in protocol.ANY_VERSION:
        return
    name = protocol.HEADER.lower().encode("ascii")
    spoken = next((value.decode("latin-1") for key, value in head.headers if key == name), None)
    them = protocol.heard(spoken, (protocol.CLIENT,))
    if them is None:
        raise InvalidRequest(f"{protocol.HEADER} cannot be read; it begins with MAJOR.MINOR")
    protocol.require_understanding(US, them)


def _wants_stream(head: h11.Request) -> bool:
    return any(name == b"accept" and b"text/event-stream" in value for name, value in head.headers)


def _json(raw: bytes) -> dict[str, Any] | None:
    if not raw:
        return None
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidRequest("the body is not a JSON object")
    return body


def listen(path: str, owner_uid: int) -> trio.SocketListener:
    """Listen at `path`, which only `owner_uid` (and root) may connect to; a stale socket is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        old_mask = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(old_mask)
        if owner_uid != os.geteuid():
            os.chown(path, owner_uid, -1)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(listener))
