"""How a ledger is to be reached by TCP: where it listens, and by which certificate. Never without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.service.places import Unservable
from leasefs.service.tcp import tcp_sockets
from leasefs.service.tls import Tls, TlsFiles

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from contextlib import ExitStack


@dataclass(frozen=True, slots=True)
class TcpOptions:
    """`HOST:PORT`s to listen at, and sockets that were passed and listen already. Without any, there is no TCP."""

    listen: tuple[str, ...] = ()
    passed: tuple[socket.socket, ...] = ()
    certificate: str = ""
    key: str = ""
    client_ca: str = ""

    def __bool__(self) -> bool:
        """Whether the ledger is reached by TCP."""
        return bool(self.listen or self.passed)

    def tls(self) -> Tls | None:
        """The certificate, read; None without TCP.

        Raises:
            Unservable: there is none, it cannot be used, or it would be for nothing.
        """
        named = self.certificate or self.key or self.client_ca
        if not self:
            if named:
                raise Unservable(
                    "a certificate is for TCP only: say where to listen, with --listen HOST:PORT"
                )
            return None
        if not self.certificate or not self.key:
            raise Unservable(
                "over TCP a ledger speaks TLS only: name its certificate with --tls-cert FILE and its key with --tls-key FILE"
            )
        return Tls(TlsFiles(self.certificate, self.key, self.client_ca))

    def sockets(self, held: ExitStack) -> Sequence[socket.socket]:
        """The listening sockets; closed with `held`. Raises UnsafePlace: one cannot be had."""
        found = [*self.passed, *(one for where in self.listen for one in tcp_sockets(where))]
        for one in found:
            held.enter_context(one)
        return found
