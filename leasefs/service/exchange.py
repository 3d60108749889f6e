"""One HTTP exchange, as the routes see it: a `Call` comes in, an `Answer` or an `EventStream` goes out.

Plain ASGI 3 underneath. A web framework's routing, request and response objects cost more per request than
deciding a claim does (measured: 20 µs against 24), and what is needed here is this file.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from leasefs.core import protocol
from leasefs.service import wire_json

if TYPE_CHECKING:
    from leasefs.core.records import Session
    from leasefs.service.auth import Principal

T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")
SPOKEN = (
    protocol.HEADER.lower().encode("ascii"),
    protocol.ours(protocol.LEDGER).header.encode("ascii"),
)
"""The header that every answer carries."""


class HttpProblem(Exception):
    """A request that fails before any rule of the ledger is asked."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Headers | None = None,
        **details: object,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers: Headers = headers or []
        self.details = details


class Disconnected(Exception):
    """The client went away; there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Whose connection this is, and how to cut it off at once.

    `uid` and `pid` are the kernel's word (unix(7), SO_PEERCRED), None over TCP; `address` is where a TCP one comes from.
    """

    uid: int | None
    pid: int | None
    abort: Callable[[], None]
    address: str = ""


@dataclass(slots=True)
class Call:
    """One request: `params` are the path's parts in braces; `who` asks, by the secret of `session` if there is one.

    `route` is the template of its path, once that is found.
    """

    params: dict[str, str]
    connection: Connection
    headers: Headers
    receive: Receive
    session: Session | None = None
    who: Principal | None = None
    route: str = ""

    def header(self, name: bytes) -> bytes | None:
        """The value of the header `name`, given in lower case; None if there is none."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    @property
    def caller(self) -> Session:
        """The authenticated session, on routes that demand one."""
        if self.session is None:
            raise LookupError("this route does not authenticate sessions")
        return self.session

    @property
    def principal(self) -> Principal:
        """Who asks, on routes that do not serve just anybody."""
        if self.who is None:
            raise LookupError("this route does not ask who calls")
        return self.who


@dataclass(slots=True)
class Answer:
    """A whole response."""

    status: int
    body: bytes
    headers: Headers = field(default_factory=lambda: [_JSON])


@dataclass(slots=True)
class EventStream:
    """A response without an end: `chunks` are sent as they come (text/event-stream, WHATWG HTML 9.2).

    `place` is held until it is over.
    """

    chunks: AsyncGenerator[bytes, None]
    place: contextlib.AbstractContextManager[object] = field(default_factory=contextlib.nullcontext)


def json_answer(status: int, value: object) -> Answer:
    """An answer whose body is `value` as JSON."""
    return Answer(status, wire_json.encode(value))


async def read_body(receive: Receive, limit_bytes: int) -> bytes:
    """The request's body, counted while it arrives.

    Raises:
        HttpProblem: 413, longer than `limit_bytes`; the connection is closed after the answer, because the
            rest of the body is still on its way.
        Disconnected: the client left in the middle of it.
    """
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit_bytes:
            raise HttpProblem(
                413,
                "too-large",
                f"the body is longer than {limit_bytes} bytes; send less at once",
                headers=[_CLOSE],
                limit_bytes=limit_bytes,
            )
        if not message.get("more_body", False):
            return b"".join((*chunks, chunk)) if chunks else chunk
        chunks.append(chunk)


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole response."""
    length = (b"content-length", b"%d" % len(answer.body))
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [*answer.headers, length, SPOKEN],
        }
    )
    await send({"type": "http.response.body", "body": answer.body})


async def send_stream(send: Send, call: Call, stream: EventStream, stall_s: float) -> None:
    """Send chunks until the client leaves or the stream ends.

    A client that takes nothing for `stall_s` seconds is cut off: it would keep its buffers for ever.
    """
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        SPOKEN,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def pump() -> None:
        # Closed here, not when the garbage is collected: the generator holds the follower.
        async with contextlib.aclosing(stream.chunks) as chunks:
            async for chunk in chunks:
                async with asyncio.timeout(stall_s):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})

    try:
        await unless_disconnected(call.receive, pump())
        await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        call.connection.abort()


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do `work`, which waits on purpose, but give it up when the client leaves. Raises Disconnected."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Disconnected
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
