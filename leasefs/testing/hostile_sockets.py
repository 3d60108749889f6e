"""What a hostile client does with a Unix socket that speaks HTTP, and what the server's process has after it.

Used against a ledger and against a mount's control socket alike: the same attempts, the same things to see.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import resource
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWERED_WITHIN_S = 20.0
_SPARE_DESCRIPTORS = 4


@dataclass(frozen=True)
class Served:
    """A server: where it listens, its process, and a request that it answers with 200."""

    socket_path: str
    pid: int
    good_path: str

    def connect(self, timeout_s: float = ANSWERED_WITHIN_S) -> socket.socket:
        """A bare connection."""
        connection = socket.socket(socket.AF_UNIX)
        # Without a timeout of its own connect(2) waits while the backlog is full, instead of EAGAIN; this bounds it.
        wait = struct.pack("ll", int(timeout_s), 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
        try:
            connection.connect(self.socket_path)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(timeout_s)
        return connection

    def answers(self) -> bytes:
        """A good client is answered, whatever else goes on: the answer's body. Raises TimeoutError if not."""
        with self.connect() as connection:
            connection.sendall(get(self.good_path, "Connection: close"))
            answer = until_eof(connection)
        assert answer.startswith(b"HTTP/1.1 200 "), answer[:300]
        return answer.partition(b"\r\n\r\n")[2]

    def descriptors(self) -> int:
        """How many it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_kib(self) -> int:
        """Its memory."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() // 1024

    @contextlib.contextmanager
    def bounded(self, more_kib: int) -> Iterator[None]:
        """Afterwards it answers, its descriptors come back, and its memory grew by no more than so much."""
        self.answers()
        descriptors, resident_kib = self.descriptors(), self.resident_kib()
        yield
        self.answers()
        eventually(
            lambda: self.descriptors() <= descriptors + _SPARE_DESCRIPTORS,
            what=f"the return of descriptors ({descriptors} before)",
        )
        grown_kib = self.resident_kib() - resident_kib
        assert grown_kib <= more_kib, f"its memory grew by {grown_kib} KiB"


def get(path: str, *headers: str) -> bytes:
    """A request without a body."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def post(path: str, body: object, *headers: str) -> bytes:
    """A request with a body of JSON."""
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


def until_eof(connection: socket.socket) -> bytes:
    """All that comes; an end by reset is one."""
    data = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while more := connection.recv(1 << 16):
            data += more
    return data


def send_all_that_goes(connection: socket.socket, data: bytes, within_s: float = 2.0) -> None:
    """Send until the server takes no more, or has had enough."""
    connection.settimeout(within_s)
    with contextlib.suppress(TimeoutError, ConnectionError):
        connection.sendall(data)
    connection.settimeout(ANSWERED_WITHIN_S)


def vanish(connection: socket.socket) -> None:
    """Close at once, with whatever was not read: the server sees a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def send_with_descriptors(connection: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send data with open descriptors in the same message (SCM_RIGHTS)."""
    rights = array.array("i", fds)
    connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


@contextlib.contextmanager
def many(served: Served, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections, each of which said `first` and then nothing."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(served.connect())
            connections.append(connection)
            if first:
                send_all_that_goes(connection, first)
        yield connections
