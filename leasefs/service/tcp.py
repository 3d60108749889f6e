"""The door for other hosts: TCP connections are counted, paced and encrypted before anything of them is read.

Handshakes are done here and not by asyncio's server, which would begin any number of them before it says that anybody
is there, and keeps one certificate for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from functools import partial
from typing import TYPE_CHECKING

from leasefs.core.exposition import counter
from leasefs.service.limits import client_of_address
from leasefs.service.places import AddressTaken, Unservable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from leasefs.core.exposition import Family
    from leasefs.service.limits import Limiter, Place
    from leasefs.service.peer import LedgerProtocol
    from leasefs.service.tls import Tls

HANDSHAKE_S = 10.0
GOODBYE_S = 5.0
BACKLOG = 1024
_PAUSE_S = 0.5
_log = logging.getLogger(__name__)


class TcpDoor:
    """Lets in who comes to these listening sockets."""

    handshake_s = HANDSHAKE_S

    def __init__(
        self,
        listening: Sequence[socket.socket],
        tls: Tls,
        limiter: Limiter,
        protocol: Callable[[Place], LedgerProtocol],
        room: Callable[[], int],
    ) -> None:
        """`room` says how many connections there may be more of; `protocol` makes one for each that is let in."""
        self._listening = listening
        self._tls = tls
        self._limiter = limiter
        self._protocol = protocol
        self._room = room
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()
        self._failed = 0

    def families(self) -> Iterator[Family]:
        """For the monitor."""
        yield counter(
            "leasefs_tls_handshakes_failed_total",
            "TCP connections that ended before TLS was agreed upon.",
            self._failed,
        )

    def start(self) -> None:
        """Begin to accept."""
        self._accepting = [asyncio.create_task(self._accept(one)) for one in self._listening]

    async def stop(self) -> None:
        """Accept no more, and give up what is only half in."""
        ending = [*self._accepting, *self._handshakes]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for one in self._listening:
            one.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            try:
                connection, peer = await loop.sock_accept(listening)
            except OSError as error:
                # No descriptor left, or the like: those who are in may leave meanwhile.
                _log.warning("cannot accept: %s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            try:
                self._begin(connection, peer[0])
            except Exception:  # noqa: BLE001 -- logged; one connection fails, not the door
                _log.exception("letting in somebody from %s failed", peer[0])
                connection.close()

    def _begin(self, connection: socket.socket, address: str) -> None:
        """Begin the handshake, if there is room for one more."""
        place = self._limiter.enter(client_of_address(address))
        if place is None or len(self._handshakes) >= self._room():
            connection.close()
            if place is not None:
                place.leave()
            return
        task = asyncio.create_task(self._let_in(connection, address, place))
        self._handshakes.add(task)
        task.add_done_callback(partial(self._is_through, place))

    def _is_through(self, place: Place, task: asyncio.Task[None]) -> None:
        """The handshake is over: on success the protocol keeps the place."""
        self._handshakes.discard(task)
        if task.cancelled() or task.exception() is not None:
            place.leave()
            self._failed += 1

    async def _let_in(self, connection: socket.socket, address: str, place: Place) -> None:
        """One handshake, if the address has not too many. Raises what it failed of."""
        try:
            if not await self._limiter.pace_connect(client_of_address(address)):
                connection.close()
                place.leave()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                partial(self._protocol, place),
                connection,
                ssl=self._tls.context,
                ssl_handshake_timeout=self.handshake_s,
                ssl_shutdown_timeout=GOODBYE_S,
            )
        except BaseException as error:
            # What asyncio has taken over it closes itself, and this once more does no harm.
            with contextlib.suppress(OSError):
                connection.close()
            _log.debug("no handshake with %s: %s", address, error)
            raise


def tcp_sockets(where: str) -> list[socket.socket]:
    """Sockets that listen at `HOST:PORT` (`[::]:PORT`, or `:PORT` for all addresses).

    Raises:
        Unservable: it cannot be read.
        AddressTaken: it cannot be had.
    """
    host, colon, port = where.rpartition(":")
    number = port if port.isascii() and port.isdecimal() and len(port) <= 5 else ""
    if not colon or not number or int(number) > 65535 or (":" in host and not host.startswith("[")):
        raise Unservable(f"--listen {where}: write HOST:PORT, an IPv6 address as [ADDRESS]:PORT")
    try:
        found = socket.getaddrinfo(
            host.strip("[]") or None,
            int(number),
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        return _bound([(one[0], one[4]) for one in found])
    except OSError as error:
        raise AddressTaken(f"cannot listen at {where}: {error.strerror or error}") from error


def _bound(places: Sequence[tuple[int, object]]) -> list[socket.socket]:
    with contextlib.ExitStack() as made:
        sockets = []
        for family, place in dict.fromkeys(places):
            one = made.enter_context(socket.socket(family, socket.SOCK_STREAM))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(place)  # type: ignore[arg-type]
            one.listen(BACKLOG)
            sockets.append(one)
        made.pop_all()
        return sockets


def url_of(listening: socket.socket) -> str:
    """Where it can be reached, as far as the socket knows."""
    host, port = listening.getsockname()[:2]
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
