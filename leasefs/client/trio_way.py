"""The mount's way to its ledger: connections over a Unix socket, or over TCP with TLS."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import trio

from leasefs.client.peer import may_be_ledger, peer_of
from leasefs.client.tls import client_context, handshake_failed, tls_error_in
from leasefs.client.unreachable import connect_failed, wrong_owner

if TYPE_CHECKING:
    import ssl

    from leasefs.client.address import Address
    from leasefs.core.errors import LeasefsError

CONNECT_TIMEOUT_S = 5.0
Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class Way:
    """Opens connections to one address."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._tls: ssl.SSLContext | None = None

    async def open(self) -> Stream:
        """A new connection, its handshake done; within five seconds.

        Raises:
            LedgerUnavailable: there is none in time, or none that is safe.
            Denied: the socket belongs to somebody else.
            InvalidRequest: what this side should trust or show cannot be used.
        """
        address = self._address
        with trio.move_on_after(CONNECT_TIMEOUT_S):
            try:
                if address.socket_path:
                    return await _open_unix(address)
                return await _open_tls(address, await self._context())
            except OSError as error:
                raise connect_failed(address, _cause(error)) from error
            except trio.BrokenResourceError as error:
                # Authorities and certificates may have been renewed since they were read.
                self._tls = None
                gone = connect_failed(address, ConnectionResetError())
                raise self.broken(error, gone) from error
        raise connect_failed(address, TimeoutError())

    def broken(self, error: Exception, otherwise: LeasefsError) -> LeasefsError:
        """What is said of a connection that broke: why TLS broke it, if that was it."""
        failure = tls_error_in(error)
        return otherwise if failure is None else handshake_failed(self._address, failure)

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            # In a thread: what is read may lie behind a mount, this process's own among them.
            self._tls = await trio.to_thread.run_sync(client_context, abandon_on_cancel=True)
        return self._tls


def close(stream: Stream) -> None:
    """Close without a word; never blocks."""
    bare = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    bare.socket.close()


def _cause(error: OSError) -> OSError:
    """Why the last of a host's addresses could not be reached: trio says only that none could."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    return cause if isinstance(cause, OSError) else error


async def _open_unix(address: Address) -> trio.SocketStream:
    connection = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await connection.connect(address.socket_path)
        _refuse_stranger(connection, address)
    except BaseException:
        connection.close()
        raise
    return trio.SocketStream(connection)


def _refuse_stranger(connection: trio.socket.SocketType, address: Address) -> None:
    uid = peer_of(connection).uid
    if not may_be_ledger(uid):
        raise wrong_owner(address, uid)


async def _open_tls(address: Address, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    bare = await trio.open_tcp_stream(address.host, address.port)
    try:
        stream = trio.SSLStream(bare, context, server_hostname=address.host, https_compatible=True)
        await stream.do_handshake()
    except BaseException:
        bare.socket.close()
        raise
    return stream
