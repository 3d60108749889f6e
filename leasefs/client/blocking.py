"""The transport of the command line: one request, one connection, no thread, no event loop.

`http.client` would cost 28 ms of start time here, more than the whole request; what a ledger's
answer needs of HTTP/1.1 (RFC 9112: status line, headers, length or chunks) stands in `http_reader`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING, TypeVar

from leasefs.client import api, speaking
from leasefs.client.address import Address, parse_url
from leasefs.client.http_reader import AnswerReader
from leasefs.client.peer import may_be_ledger, peer_of
from leasefs.client.sse import KEEP_ALIVE, EventReader
from leasefs.client.unreachable import connect_failed, silent, vanished, wrong_owner
from leasefs.core import protocol
from leasefs.core.errors import LeasefsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.client.ids import Credentials
    from leasefs.client.sse import StreamEvent

T = TypeVar("T")
US = protocol.ours(protocol.CLIENT)
DEFAULT_TIMEOUT_S = 10.0
# A stream's server sends a comment every 15 s; three missed ones mean that it is gone.
STREAM_TIMEOUT_S = 50.0
_CHUNK = 65536
_TIMEVAL = struct.Struct("ll")
# The server closed without an answer: it was going away. Nothing else is worth a second try.
_GONE = (ConnectionRefusedError, FileNotFoundError, ConnectionResetError, BrokenPipeError)


class Link:
    """Sends Calls to one ledger (or one mount's control socket).

    `revive` is called once per request when nobody listens, and may start a ledger; the request is
    then sent again. Every request can be sent twice: its key, or its session's id, makes it act once.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        revive: Callable[[], None] | None = None,
    ) -> None:
        self.address = parse_url(url)
        self.credentials = credentials
        self._timeout_s = timeout_s
        self._revive = revive

    def hurried(self, timeout_s: float) -> Link:
        """A link for the same session that waits no longer than this, and starts no ledger."""
        return Link(self.address.url, self.credentials, timeout_s=timeout_s)

    def reachable(self) -> bool:
        """Whether somebody accepts connections there now; nothing is sent.

        Raises:
            Denied: as `send`.
            LedgerUnavailable: if it does not accept in time.
        """
        try:
            self._connect().close()
        except _GONE:
            return False
        return True

    def send(self, call: api.Call) -> api.Body:
        """Carry out one request and return what the ledger said.

        Raises:
            LedgerUnavailable: if nobody answers within the timeout (plus the call's own patience).
            Denied: if the socket is closed to this user, or belongs to somebody else.
            LeasefsError: what the ledger refused.
        """
        return speaking.answer(US, call, *self._with_revival(lambda: self._exchange(call)))

    def stream(self, call: api.Call) -> Iterator[StreamEvent]:
        """The events of a stream (`api.follow`, `api.use`), until the ledger ends it.

        Closing the generator closes the connection.

        Raises:
            LedgerUnavailable: if the ledger cannot be reached, or falls silent for 50 s.
            LeasefsError: what the ledger refused.
        """
        connection = self._with_revival(self._connect)
        try:
            reader = self._ask(connection, call, STREAM_TIMEOUT_S, accept="text/event-stream")
            spoken = reader.headers.get(speaking.HEADER_KEY)
            if reader.status != 200:
                speaking.answer(US, call, spoken, reader.status, reader.read_body())
            speaking.require_understanding(US, call, spoken)
            events = EventReader()
            for chunk in reader.body():
                for event in events.feed(chunk):
                    if event.type != KEEP_ALIVE:
                        yield event
        except TimeoutError as error:
            raise silent(self.address, STREAM_TIMEOUT_S) from error
        except _GONE as error:
            raise vanished(self.address) from error
        finally:
            connection.close()

    def _with_revival(self, attempt: Callable[[], T]) -> T:
        revive = self._revive
        while True:
            try:
                return attempt()
            except _GONE as error:
                if revive is None:
                    raise connect_failed(self.address, error) from error
                revive()
                revive = None

    def _exchange(self, call: api.Call) -> tuple[str | None, int, bytes]:
        connection = self._connect()
        try:
            reader = self._ask(connection, call, self._timeout_s + call.patience_s)
            return reader.headers.get(speaking.HEADER_KEY), reader.status, reader.read_body()
        except TimeoutError as error:
            raise silent(self.address, self._timeout_s + call.patience_s) from error
        finally:
            connection.close()

    def _connect(self) -> socket.socket:
        address = self.address
        family = socket.AF_UNIX if address.socket_path else _family(address)
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            # A Unix socket with a timeout does not wait for room in the backlog; this does, socket(7).
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(self._timeout_s))
            connection.connect(address.socket_path or (address.host, address.port))
            if address.socket_path:
                _refuse_stranger(connection, address)
        except OSError as error:
            connection.close()
            if isinstance(error, _GONE):
                raise
            raise connect_failed(address, error) from error
        except LeasefsError:
            connection.close()
            raise
        return connection

    def _ask(
        self,
        connection: socket.socket,
        call: api.Call,
        timeout_s: float,
        accept: str = "application/json",
    ) -> AnswerReader:
        connection.settimeout(timeout_s)
        reader = AnswerReader(lambda: connection.recv(_CHUNK))
        # A refusal may come before the whole request has gone out; it is heard all the same.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(self._request(call, accept))
        reader.read_head()
        return reader

    def _request(self, call: api.Call, accept: str) -> bytes:
        body = api.encode(call)
        lines = [
            f"{call.method} {call.path} HTTP/1.1",
            f"Host: {self.address.host or 'leasefs'}",
            f"Accept: {accept}",
            f"{protocol.HEADER}: {US.header}",
            "Connection: close",
        ]
        if call.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if call.needs_session and self.credentials is not None:
            lines.append(f"Authorization: {self.credentials.authorization}")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _timeval(seconds: float) -> bytes:
    return _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6))


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def _refuse_stranger(connection: socket.socket, address: Address) -> None:
    """A ledger is handed secrets, so it must run as this user, root or the ledger's account (SO_PEERCRED, unix(7))."""
    uid = peer_of(connection).uid
    if not may_be_ledger(uid):
        raise wrong_owner(address, uid)
