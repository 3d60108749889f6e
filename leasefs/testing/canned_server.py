"""A Unix socket that answers each connection with the next prepared bytes, then closes it."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class CannedServer:
    """What was asked, in order; answers are given in order, one for each connection."""

    def __init__(self, listener: socket.socket, answers: Sequence[bytes]) -> None:
        self.requests: list[bytes] = []
        self._listener = listener
        self._answers = list(answers)

    def serve(self) -> None:
        """Answer until nothing is left to answer, or the listener is shut."""
        while self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                answer = self._answers.pop(0)
                if answer:
                    self.requests.append(_request(connection))
                    connection.sendall(answer)


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            while len(body) < int(line.split(b":")[1]):
                body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def json_answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    """An HTTP answer with that JSON body."""
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


@contextlib.contextmanager
def canned_server(path: str, answers: Sequence[bytes]) -> Iterator[CannedServer]:
    """Serve `answers` at `path` from a thread; an empty one closes without a word."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        server = CannedServer(listener, answers)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=5)
