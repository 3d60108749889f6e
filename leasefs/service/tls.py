"""What a ledger shows over TCP, and what it asks of who connects there."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass

from leasefs.client.private_file import require_private
from leasefs.client.tls import no_passphrase, readable
from leasefs.core.errors import Denied
from leasefs.service.places import Unservable

_log = logging.getLogger(__name__)


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

    def reload(self) -> None:
        """Read the files again; what cannot be used is logged, and the certificate in use stays."""
        try:
            self.context = server_context(self.files)
        except Unservable as error:
            _log.error("the certificate was not read again: %s", error)
        else:
            _log.info("read %s again", self.files.certificate)
