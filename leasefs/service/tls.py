"""What a ledger shows over TCP, and what it asks of who connects there."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.client.certificates import file_good_until_s, soon_over
from leasefs.client.private_file import require_private
from leasefs.client.tls import no_passphrase, readable
from leasefs.core.errors import Denied
from leasefs.service.places import Unservable

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
LOOK_EVERY_S = 86400.0


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the certificate with its chain, its key, and the authority of clients' certificates ("": none asked)."""

    certificate: str
    key: str
    client_ca: str = ""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """TLS 1.2 or later with this certificate; with `client_ca` a client needs one, too, that it signed.

    Raises:
        Unservable: a file cannot be used, the key is another certificate's, or others can read it.
    """
    try:
        require_private(files.key, "the key of the ledger's certificate,", group_of_root=True)
    except Denied as error:
        raise Unservable(error.message) from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could have it compute without end, for some bytes each time.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.certificate, files.key, password=no_passphrase)
    except (OSError, ValueError) as error:
        raise _unusable(f"{files.certificate} with the key {files.key}", error) from error
    if files.client_ca:
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise _unusable(files.client_ca, error) from error
        context.verify_mode = ssl.CERT_REQUIRED


def _unusable(what: str, error: Exception) -> Unservable:
    why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    if "PEM lib" in str(why):  # all that OpenSSL says of a file that it finds nothing in
        why = "it must hold what it is named for, in PEM format"
    return Unservable(f"TLS cannot use {what}: {readable(why)}")


class Tls:
    """The context for handshakes that begin now; connections that are made keep theirs."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises as `server_context`."""
        self.files = files
        self.context = server_context(files)
        self._good_until_s = self._end_s()

    def reload(self, wall_s: float) -> None:
        """Read the files again; what cannot be used is logged, and the certificate in use stays."""
        try:
            self.context = server_context(self.files)
        except Unservable as error:
            _log.error("the certificate was not read again: %s", error)
        else:
            self._good_until_s = self._end_s()
            _log.info("read %s again", self.files.certificate)
            self.tell_of_its_end(wall_s)

    def _end_s(self) -> float | None:
        try:
            return file_good_until_s(self.files.certificate)
        except (OSError, ValueError) as error:
            _log.warning("until when the certificate is good is not known: %s", error)
            return None

    def tell_of_its_end(self, wall_s: float) -> None:
        """Warn of a certificate that is over, or soon will be: all who come by TCP refuse the ledger then."""
        if self._good_until_s is not None and (ends := soon_over(self._good_until_s, wall_s)):
            _log.warning(
                "the certificate in use, of %s, %s; clients refuse it from then on. "
                "Renew it and have it read again (SIGHUP, systemctl reload)",
                self.files.certificate,
                ends,
            )

    async def watch(self, wall_s: Callable[[], float]) -> None:
        """Tell of it now and once a day, until cancelled."""
        while True:
            self.tell_of_its_end(wall_s())
            await asyncio.sleep(LOOK_EVERY_S)
