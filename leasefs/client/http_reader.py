"""The little of HTTP/1.1 that reading one answer needs (RFC 9112), over any source of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.errors import LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_HEAD_BYTES = 64 << 10
MAX_BODY_BYTES = 256 << 20


class AnswerReader:
    """One answer, read once: `read_head`, then `read_body` or `body`.

    `receive` gives the next bytes, none at the end of the connection.
    """

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._buffer = b""
        self.status = 0
        self.headers: dict[str, str] = {}

    def read_head(self) -> None:
        """Read status and headers; interim answers (1xx) are passed over.

        Raises:
            ConnectionResetError: if the connection ends before an answer began.
            LedgerUnavailable: if what comes is not HTTP, or ends in the middle.
        """
        while self.status < 200:
            lines = self._until(b"\r\n\r\n", MAX_HEAD_BYTES).decode("latin-1").split("\r\n")
            version, _, rest = lines[0].partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
                raise LedgerUnavailable(
                    "what answers there does not speak HTTP; check ledger.url (LEASEFS_LEDGER)"
                )
            self.status = int(rest[:3])
            pairs = (line.partition(":") for line in lines[1:])
            self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}

    def read_body(self) -> bytes:
        """The whole body. Raises LedgerUnavailable if it breaks off or is longer than 256 MiB."""
        parts, length = [], 0
        for part in self.body():
            parts.append(part)
            length += len(part)
            if length > MAX_BODY_BYTES:
                raise LedgerUnavailable(f"the answer is longer than {MAX_BODY_BYTES} bytes")
        return b"".join(parts)

    def body(self) -> Iterator[bytes]:
        """The body's pieces as they come. Raises LedgerUnavailable if it breaks off."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif "content-length" in self.headers:
            yield from self._exactly(_number(self.headers["content-length"], 10))
        else:
            yield from self._to_the_end()

    def _chunks(self) -> Iterator[bytes]:
        while size := _number(self._until(b"\r\n", 1024).split(b";")[0], 16):
            yield from self._exactly(size)
            self._until(b"\r\n", 1024)
        while self._until(b"\r\n", MAX_HEAD_BYTES):
            pass  # trailer fields say nothing that we need

    def _exactly(self, length: int) -> Iterator[bytes]:
        while length:
            self._fill_if_empty()
            part, self._buffer = self._buffer[:length], self._buffer[length:]
            length -= len(part)
            yield part

    def _to_the_end(self) -> Iterator[bytes]:
        part = self._buffer or self._receive()
        self._buffer = b""
        while part:
            yield part
            part = self._receive()

    def _fill_if_empty(self) -> None:
        if not self._buffer:
            self._buffer = self._receive()
            if not self._buffer:
                raise LedgerUnavailable("the answer broke off in the middle")

    def _until(self, mark: bytes, limit: int) -> bytes:
        while mark not in self._buffer:
            if len(self._buffer) > limit:
                raise LedgerUnavailable("the answer's head is too long to be one of a ledger")
            more = self._receive()
            if not more:
                if not self._buffer and not self.status:
                    raise ConnectionResetError("closed before an answer")
                raise LedgerUnavailable("the answer broke off in the middle")
            self._buffer += more
        found, _, self._buffer = self._buffer.partition(mark)
        return found


def _number(text: str | bytes, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError as error:
        raise LedgerUnavailable("the answer's length cannot be read") from error
    if number < 0:
        raise LedgerUnavailable("the answer's length is negative")
    return number
