"""The transport of the command line: one request, one connection, no thread, no event loop.

`http.client` would cost 28 ms of start time here, more than the whole request; what a ledger's
answer needs of HTTP/1.1 (RFC 9112: status line, headers, length or chunks) stands in `http_reader`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING, TypeVar

from leasefs.client import api, limited, speaking
from leasefs.client.address import Address, parse_url
from leasefs.client.clock import BoottimeClock, pause
from leasefs.client.http_reader import AnswerReader
from leasefs.client.peer import may_be_ledger, peer_of
from leasefs.client.proof import Proof
from leasefs.client.sse import KEEP_ALIVE, EventReader
from leasefs.client.tokens import TokenSource
from leasefs.client.unreachable import connect_failed, silent, vanished, wrong_owner
from leasefs.core import protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from leasefs.client.ids import Credentials
    from leasefs.client.sse import StreamEvent
    from leasefs.core.errors import LeasefsError

T = TypeVar("T")
US = protocol.ours(protocol.CLIENT)
DEFAULT_TIMEOUT_S = 10.0
# A stream's server sends a comment every 15 s; three missed ones mean that it is gone.
STREAM_TIMEOUT_S = 50.0
_CHUNK = 65536
_TIMEVAL = struct.Struct("ll")
_OK = 200
_UNAUTHORIZED = 401
# The server closed without an answer: it was going away. Nothing else is worth a second try.
_GONE = (ConnectionRefusedError, FileNotFoundError, ConnectionResetError, BrokenPipeError)


class Link:
    """Sends Calls to one ledger (or one mount's control socket), and again as long as it is asked to wait (429).

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
        is_ledger: bool = True,
    ) -> None:
        """`is_ledger`: it may be shown this user's token for it; a mount's control socket must not."""
        self.address = parse_url(url)
        self._is_ledger = is_ledger
        self._proof = Proof(credentials, TokenSource(self.address) if is_ledger else None)
        self._timeout_s = timeout_s
        self._revive = revive
        self._tls: ssl.SSLContext | None = None

    @property
    def credentials(self) -> Credentials | None:
        """Those of the session whose requests it sends."""
        return self._proof.credentials

    @credentials.setter
    def credentials(self, credentials: Credentials | None) -> None:
        self._proof.credentials = credentials

    def hurried(self, timeout_s: float) -> Link:
        """A link for the same session that waits no longer than this, and starts no ledger."""
        return Link(
            self.address.url, self.credentials, timeout_s=timeout_s, is_ledger=self._is_ledger
        )

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

    def certificate(self) -> bytes:
        """What the ledger shows, as DER; empty over a Unix socket. Nothing is sent.

        Raises:
            LedgerUnavailable: there is no safe connection.
        """
        if not self.address.host:
            return b""
        try:
            with self._connected_tls() as connection:
                return connection.getpeercert(binary_form=True) or b""
        except OSError as error:
            raise connect_failed(self.address, error) from error

    def send(self, call: api.Call) -> api.Body:
        """Carry out one request and return what the ledger said.

        Raises:
            LedgerUnavailable: if nobody answers within the timeout (plus the call's own patience).
            Denied: if the socket is closed to this user, or belongs to somebody else.
            LeasefsError: what the ledger refused.
        """
        return speaking.answer(US, call, *self._answered(call))

    def text(self, call: api.Call) -> str:
        """As `send`, of an answer that is no JSON."""
        spoken, status, body = self._answered(call)
        if status != _OK:
            speaking.answer(US, call, spoken, status, body)  # says why, by raising it
        speaking.require_understanding(US, call, spoken)
        return body.decode("utf-8", "replace")

    def _answered(self, call: api.Call) -> tuple[str | None, int, bytes]:
        """An answer that is worth no other try: what is spoken there, the status, the body."""
        clock = BoottimeClock()
        until_s = clock.now_s() + self._timeout_s + call.patience_s
        while True:
            spoken, status, body = self._with_revival(lambda: self._exchange(call))
            wait_s = limited.wait_s(status, body, until_s - clock.now_s())
            if wait_s is not None:
                pause(wait_s)
            elif status != _UNAUTHORIZED:
                return spoken, status, body
            elif not self._proof.refused(call):
                if (lacking := self._proof.lacking(call)) is not None:
                    raise lacking
                return spoken, status, body

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
            if reader.status == _UNAUTHORIZED and self._proof.refused(call):
                connection.close()
                connection = self._connect()
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
        except OSError as error:
            raise self._broken(error) from error
        finally:
            connection.close()

    def _broken(self, error: OSError) -> LeasefsError:
        """Of a connection that had been made."""
        return (
            vanished(self.address)
            if isinstance(error, _GONE)
            else connect_failed(self.address, error)
        )

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
        except _GONE:
            raise
        except OSError as error:
            raise connect_failed(self.address, error) from error
        finally:
            connection.close()

    def _connect(self) -> socket.socket:
        try:
            return self._connected_tls() if self.address.host else self._connected_unix()
        except _GONE:
            raise
        except OSError as error:
            raise connect_failed(self.address, error) from error

    def _connected_unix(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A Unix socket with a timeout does not wait for room in the backlog; this does, socket(7).
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(self._timeout_s))
            connection.connect(self.address.socket_path)
            _refuse_stranger(connection, self.address)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected_tls(self) -> ssl.SSLSocket:
        if self._tls is None:
            from leasefs.client.tls import client_context  # as dear as a whole command otherwise

            self._tls = client_context()
        host = self.address.host
        bare = socket.create_connection((host, self.address.port), self._timeout_s)
        try:
            bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.wrap_socket(bare, server_hostname=host)
        except BaseException:
            bare.close()
            raise

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
            f"Host: {self.address.authority}",
            f"Accept: {accept}",
            f"{protocol.HEADER}: {US.header}",
            "Connection: close",
        ]
        if call.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        shown = self._proof.header(call)
        if shown is not None:
            lines.append(f"Authorization: {shown}")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _timeval(seconds: float) -> bytes:
    return _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6))


def _refuse_stranger(connection: socket.socket, address: Address) -> None:
    """A ledger is handed secrets, so it must run as this user, root or the ledger's account (SO_PEERCRED, unix(7))."""
    uid = peer_of(connection).uid
    if not may_be_ledger(uid):
        raise wrong_owner(address, uid)
