"""The ledger's TLS port among hostile clients: handshakes that stall, what is no TLS, and the same within TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.certificates import Authority
from leasefs.testing.hostile_sockets import Served, get, send_all_that_goes, until_eof, vanish
from leasefs.testing.ledger_process import LedgerProcess, free_port, tls_options

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

MOST_KIB = 96 * 1024
TIMEOUT_S = 20.0
# The first bytes of a handshake of TLS 1.3, with a length that is never reached.
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 32


@dataclass(frozen=True)
class Door(Served):
    """A ledger's TLS port; `answers` and what is bounded are those of its Unix socket, and a good client by TLS."""

    port: int
    context: ssl.SSLContext

    def bare(self) -> socket.socket:
        """A TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)

    def shaken(self) -> ssl.SSLSocket:
        """One that speaks TLS."""
        bare = self.bare()
        try:
            return self.context.wrap_socket(bare, server_hostname="127.0.0.1")
        except OSError:
            bare.close()
            raise

    def answers(self) -> bytes:
        with self.shaken() as connection:
            connection.sendall(get("/healthz", "Connection: close"))
            said = until_eof(connection)
        assert said.startswith(b"HTTP/1.1 200 "), said[:300]
        return super().answers()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    directory = str(tmp_path_factory.mktemp("door"))
    os.chmod(directory, 0o700)
    authority, port = Authority(directory), free_port()
    limits = ("--limit", "requests=0", "--limit", "connects=0")
    options = (*tls_options(authority.leaf(), port), *limits)
    with LedgerProcess(directory, *options, store=":memory:") as ledger:
        context = ssl.create_default_context(cafile=authority.file)
        yield Door(ledger.socket_path, ledger.process.pid, "/openapi.json", port, context)
        assert ledger.stop() == 0


@contextlib.contextmanager
def many(door: Door, count: int, first: bytes, *, shaken: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(door.shaken() if shaken else door.bare())
            send_all_that_goes(connection, first)
        yield


@pytest.mark.parametrize(
    "first",
    [b"", HALF_HELLO[:3], HALF_HELLO, b"\x16\x03\x01\xff\xff" + b"\x01" * 1000],
    ids=["silent", "three bytes", "half a hello", "an endless record"],
)
def test_handshakes_that_stall(door: Door, first: bytes) -> None:
    with door.bounded(MOST_KIB), many(door, 250, first, shaken=False):
        door.answers()


@pytest.mark.parametrize(
    "data",
    [
        get("/healthz"),
        b"\0" * 100_000,
        bytes(range(256)) * 400,
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x16\x03\x00\x00\x2f" + b"\0" * 47,
        b"\x80\x2e\x01\x00\x02" + b"\0" * 44,
        HALF_HELLO + b"\xff" * 70_000,
    ],
    ids=["plain HTTP", "NULs", "noise", "an alert", "SSL 3", "SSL 2", "a hello of noise"],
)
def test_what_is_no_tls(door: Door, data: bytes) -> None:
    """It ends, unanswered or by an alert; nothing in clear comes back."""
    with door.bounded(MOST_KIB):
        for _ in range(20):
            with door.bare() as connection:
                send_all_that_goes(connection, data)
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                assert b"HTTP" not in until_eof(connection)


def test_handshakes_that_break_off(door: Door) -> None:
    with door.bounded(MOST_KIB):
        for first in (b"", HALF_HELLO) * 150:
            connection = door.bare()
            send_all_that_goes(connection, first)
            vanish(connection)
        door.answers()


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nX: ",
        b"POST /v1/leases HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
    ],
    ids=["silent", "half a head", "half a body"],
)
def test_slow_within_tls(door: Door, first: bytes) -> None:
    with door.bounded(MOST_KIB), many(door, 60, first, shaken=True):
        door.answers()


def test_answers_that_nobody_takes(door: Door) -> None:
    with door.bounded(MOST_KIB), many(door, 20, get("/openapi.json") * 100, shaken=True):
        door.answers()


def test_floods_within_tls(door: Door) -> None:
    """Heads and bodies of megabytes, from who is not known."""
    with door.bounded(MOST_KIB):
        for flood in (
            b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 300_000,
            b"POST /v1/batch HTTP/1.1\r\nContent-Length: 10000000000\r\n\r\n" + b" " * (16 << 20),
        ):
            with door.shaken() as connection:
                send_all_that_goes(connection, flood)
                with contextlib.suppress(ssl.SSLError):
                    assert until_eof(connection)[:10] in {b"", b"HTTP/1.1 4"}
        door.answers()
