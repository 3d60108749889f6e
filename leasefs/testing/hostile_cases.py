"""The attempts of `hostile_sockets` that every server here must stand, by name: `attempt(served)` returns when it is over."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

from leasefs.testing.hostile_sockets import (
    Served,
    get,
    many,
    post,
    send_all_that_goes,
    send_with_descriptors,
    until_eof,
    vanish,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
_HEAD = b"POST /v1/leases HTTP/1.1\r\nHost: x\r\n"


def idle(served: Served) -> None:
    """1,000 connections that say nothing; a good client is answered while they are open."""
    with many(served, 1000):
        served.answers()


def half_heads(served: Served) -> None:
    """Heads that never end."""
    with many(served, 300, b"GET /v1/leases HTTP/1.1\r\nHost: x\r\nX-Slow: "):
        served.answers()


def half_bodies(served: Served) -> None:
    """Bodies that never come whole."""
    with many(served, 300, _HEAD + b'Content-Length: 1000\r\n\r\n{"key":'):
        served.answers()


def drip(served: Served) -> None:
    """A byte of head, and of body, now and then, from many; others are answered in between."""
    with many(served, 60, b"G") as connections:
        for byte in b"ET /healthz HTTP/1.1\r\nX: " + b"y" * 20:
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.send(bytes([byte]))
        served.answers()


def unread_answers(served: Served) -> None:
    """Thousands of requests at once from those who never read what is answered."""
    with many(served, 30, get(served.good_path) * 2000):
        served.answers()


def unread_streams(served: Served) -> None:
    """Streams that nobody reads."""
    with many(served, 100, get("/v1/events?follow=1&after=0")):
        served.answers()


def giant_bodies(served: Served) -> None:
    """Bodies of gigabytes, announced or not."""
    for length in (
        b"Content-Length: 10000000000\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n40000000\r\n",
    ):
        with served.connect() as connection:
            send_all_that_goes(connection, _HEAD + length + b" " * (24 * MIB))
            assert until_eof(connection)[:12] in {
                *(b"", b"HTTP/1.1 400", b"HTTP/1.1 401", b"HTTP/1.1 413")
            }
    served.answers()


def small_chunks(served: Served) -> None:
    """A body in chunks of a byte, with extensions and a trailer that go on."""
    for piece, count in ((b"1\r\n \r\n", 200_000), (b"1;" + b"x" * 1000 + b"\r\n \r\n", 5000)):
        with served.connect() as connection:
            send_all_that_goes(
                connection, _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + piece * count
            )
    with served.connect() as connection:
        trailer = b"0\r\n" + b"X: y\r\n" * 200_000
        send_all_that_goes(connection, _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + trailer)
    served.answers()


def header_floods(served: Served) -> None:
    """Heads of megabytes: one long header, many, many of the same."""
    for flood in (b"X: " + b"x" * (8 * MIB), b"X: y\r\n" * 500_000, b"Host: x\r\n" * 300_000):
        with served.connect() as connection:
            send_all_that_goes(connection, b"GET /healthz HTTP/1.1\r\n" + flood)
            assert until_eof(connection)[:10] in {b"", b"HTTP/1.1 4"}
    served.answers()


def noise(served: Served) -> None:
    """NULs, TLS, HTTP/2, another HTTP, binary."""
    for data in (
        b"\0" * 100_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 50,
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/0.9\r\n\r\n",
        b"\r\n" * 100_000,
        bytes(range(256)) * 400,
    ):
        with served.connect() as connection:
            send_all_that_goes(connection, data)
            with contextlib.suppress(OSError):
                connection.shutdown(1)
            assert not until_eof(connection).startswith(b"HTTP/1.1 5"), data[:40]
    served.answers()


def churn(served: Served) -> None:
    """Connections that come and go at once: silent, in the middle of a request, before the answer is read."""
    for first in (b"", b"GET /v1", get(served.good_path), post("/v1/leases", {})[:-1]) * 300:
        connection = served.connect()
        if first:
            with contextlib.suppress(OSError):
                connection.sendall(first)
        vanish(connection)
    served.answers()


def churn_of_streams(served: Served) -> None:
    """Streams whose readers vanish."""
    for _ in range(150):
        connection = served.connect()
        connection.sendall(get("/v1/events?follow=1&after=0"))
        vanish(connection)
    served.answers()


def descriptors_for_nothing(served: Served) -> None:
    """Messages that bring open descriptors along (SCM_RIGHTS): nobody takes them."""
    before = served.descriptors()
    with open(os.devnull, "rb") as null, contextlib.ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(served.connect())
            send_with_descriptors(connection, get("/nothing"), [null.fileno()] * 200)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 4")
        assert served.descriptors() <= before + 20 + 3


def half_closed(served: Served) -> None:
    """Who has said all, and says so (shutdown(2)), is answered."""
    with served.connect() as connection:
        connection.sendall(get(served.good_path))
        connection.shutdown(1)
        # Either is sound: the answer, or an end.
        assert until_eof(connection)[:12] in {b"HTTP/1.1 200", b""}
    served.answers()


def held_by_a_child(served: Served) -> None:
    """The client ends, and a child of it that knows nothing of it keeps the connection open."""
    with served.connect() as connection:
        connection.sendall(get("/v1/events?follow=1&after=0"))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        served.answers()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def crowds(served: Served) -> None:
    """Many good clients at once, among as many bad ones: each is answered."""
    wrong: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(5):
                served.answers()
        except (AssertionError, OSError) as error:
            wrong.append(error)

    with many(served, 200, b"GET / HTTP"):
        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[0]


ATTEMPTS: dict[str, Callable[[Served], None]] = {
    one.__name__.replace("_", " "): one
    for one in (
        *(idle, half_heads, half_bodies, drip, unread_answers, unread_streams, giant_bodies),
        *(small_chunks, header_floods, noise, churn, churn_of_streams, descriptors_for_nothing),
        *(half_closed, held_by_a_child, crowds),
    )
}

# Forms of a request that two parsers could take for different ones (RFC 9112, 6.3 and 11.2); `%b` is a second request
# that would be smuggled. Each is refused, or is one request with one answer.
SMUGGLING: dict[str, bytes] = {
    "length and chunks": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%b",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n%b",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 200\r\n\r\n%b",
    "two lengths in one": b"Content-Length: 0, 200\r\n\r\n%b",
    "a signed length": b"Content-Length: +0\r\n\r\n%b",
    "a length with a space in its name": b"Content-Length : 0\r\n\r\n%b",
    "a length in hexadecimal": b"Content-Length: 0x0\r\n\r\n%b",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n%b",
    "chunked is not the last coding": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n%b",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%b",
    "a coding behind a tab": b"Transfer-Encoding:\tchunked\x0b\r\nContent-Length: 5\r\n\r\n0\r\n\r\n%b",
    "a chunk size that overflows": b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n%b",
    "a chunk size with a sign": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n%b",
    "a chunk that is longer than it says": b"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n%b",
    "a bare line feed in the chunk": b"Transfer-Encoding: chunked\r\n\r\n0\n\n%b",
    "a bare carriage return": b"X: a\rContent-Length: 0\r\n\r\n%b",
    "a nul in the name": b"Content-Length\0: 0\r\n\r\n%b",
}
