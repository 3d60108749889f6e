"""TLS to a ledger: what this side trusts and shows, and what a handshake that failed means.

Imported only where an address is https: the import alone takes as long as a command does otherwise.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from leasefs.client import config
from leasefs.client.private_file import require_private
from leasefs.core.errors import InvalidRequest, LedgerUnavailable

if TYPE_CHECKING:
    from leasefs.client.address import Address
    from leasefs.core.errors import LeasefsError

CA_FILE = "LEASEFS_CA_FILE"
CERTIFICATE_FILE = "LEASEFS_CLIENT_CERT_FILE"


def client_context() -> ssl.SSLContext:
    """TLS 1.2 or later; host names and certificates are verified, by LEASEFS_CA_FILE or the system's authorities.

    Raises:
        InvalidRequest: a file that a variable names holds no certificate or key, or there is none.
        Denied: others can read the key.
    """
    authorities = config.path("ledger.ca_file") or None
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=authorities)
    except (OSError, ValueError) as error:
        raise _unusable("ledger.ca_file", authorities or "", error) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    certificate = config.path("ledger.client_cert_file")
    if certificate:
        _show(context, certificate, config.path("ledger.client_key_file") or None)
    return context


def _show(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    require_private(key or certificate, "the key of your certificate,", group_of_root=True)
    try:
        context.load_cert_chain(certificate, key, password=no_passphrase)
    except (OSError, ValueError) as error:
        raise _unusable("ledger.client_cert_file", certificate, error) from error


def no_passphrase() -> str:
    """Instead of asking for one on the terminal, as OpenSSL would. Raises ValueError."""
    raise ValueError("the key is encrypted; decrypt it into a file of mode 0600")


def _unusable(setting: str, path: str, error: Exception) -> LeasefsError:
    why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    words = f"{path} cannot be used: {readable(why)}; it must be a file in PEM format"
    return config.refused(setting, words) if path else InvalidRequest(words)


def readable(reason: object) -> str:
    """OpenSSL's `CERTIFICATE_VERIFY_FAILED` as words."""
    text = str(reason)
    return text.replace("_", " ").lower() if text.isupper() else text


_VERIFY = {  # X509_V_ERR_* of x509_vfy.h
    9: "its certificate is not valid yet: is this machine's clock right?",
    10: "its certificate has expired: have it renewed there (or is this machine's clock wrong?)",
    23: "its certificate was revoked: have a new one made there",
}
_STRANGER = (
    "no authority that is trusted here has signed its certificate: have the authority's certificate given to you, and "
    f"name its file in {CA_FILE}"
)
_STRANGERS = frozenset({2, 18, 19, 20, 21, 24, 26, 79})
_OTHER_HOST = frozenset({62, 64})  # hostname, IP address
_WRONG_HOST = "its certificate is not made out to {host}: use the name that it is made out to, or have one made for this name"
_ALERTS = {
    "WRONG_VERSION_NUMBER": "what listens there does not speak TLS",
    "HTTP_REQUEST": "what listens there does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "it offers no TLS of version 1.2 or later",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it offers no TLS of version 1.2 or later",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate of yours: name its file in "
    f"{CERTIFICATE_FILE}",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it refuses the handshake; if it asks for a certificate of yours, name its file in "
    f"{CERTIFICATE_FILE}",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority that signed your certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "your certificate has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept your certificate",
    "UNEXPECTED_EOF_WHILE_READING": "it closed the connection during the handshake",
}


def handshake_failed(address: Address, error: ssl.SSLError) -> LedgerUnavailable:
    """Why there is no connection that secrets may travel on, and what to do; for a mount the ledger is away (P12)."""
    reason, words = _problem(address, error)
    return LedgerUnavailable(
        f"no safe connection to the ledger at {address.url}: {words}", url=address.url, tls=reason
    )


def _problem(address: Address, error: ssl.SSLError) -> tuple[str, str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        code = error.verify_code
        if code in _OTHER_HOST:
            return "wrong-host", _WRONG_HOST.format(host=address.host)
        if code in _STRANGERS:
            return "unknown-authority", f"{_STRANGER} ({error.verify_message})"
        return "certificate", _VERIFY.get(
            code, f"its certificate is not good: {error.verify_message}"
        )
    reason = str(error.reason or error.strerror or type(error).__name__)
    return "handshake", _ALERTS.get(reason, readable(reason))


def tls_error_in(error: BaseException | None) -> ssl.SSLError | None:
    """The failure of TLS that this exception came from, if it did."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__
    return None
