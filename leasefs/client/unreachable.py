"""Why a ledger could not be reached, in words that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.errors import Denied, LedgerUnavailable

if TYPE_CHECKING:
    from leasefs.client.address import Address
    from leasefs.core.errors import LeasefsError


def connect_failed(address: Address, error: OSError) -> LeasefsError:
    """The connection was refused, or there is nothing to connect to, or this user may not."""
    where = address.url
    if address.host and (failed := _handshake_failed(address, error)) is not None:
        return failed
    if isinstance(error, PermissionError):
        return Denied(
            f"permission denied on the ledger's socket {where}: it belongs to another user; "
            "point ledger.url (LEASEFS_LEDGER) at your own, or take it out",
            url=where,
        )
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        why = "no ledger listens there"
    elif isinstance(error, TimeoutError | BlockingIOError):
        why = "it does not accept the connection in time"
    elif isinstance(error, ConnectionResetError | BrokenPipeError):
        why = "it closed the connection without an answer"
        if address.host:
            why += (
                " (if it asks clients for a certificate, name the file of one that its authority signed in "
                "LEASEFS_CLIENT_CERT_FILE)"
            )
    else:
        why = error.strerror or type(error).__name__
    return LedgerUnavailable(
        f"cannot reach the ledger at {where}: {why}; writes go on inside leases already held, "
        "`leasefs doctor` says more",
        url=where,
    )


def _handshake_failed(address: Address, error: OSError) -> LedgerUnavailable | None:
    from leasefs.client.tls import handshake_failed, tls_error_in  # seldom needed

    failure = tls_error_in(error)
    return None if failure is None else handshake_failed(address, failure)


def silent(address: Address, waited_s: float) -> LedgerUnavailable:
    """Connected, asked, and heard nothing."""
    return LedgerUnavailable(
        f"the ledger at {address.url} did not answer within {waited_s:g} s; it may be overloaded or stopped",
        url=address.url,
        waited_s=waited_s,
    )


def vanished(address: Address) -> LedgerUnavailable:
    """A stream broke off."""
    return LedgerUnavailable(f"the ledger at {address.url} went away", url=address.url)


def wrong_owner(address: Address, uid: int) -> Denied:
    """The process that listens there runs as somebody else."""
    return Denied(
        f"the ledger at {address.url} belongs to another user (uid {uid}), so it is not given your session's "
        "secret; point ledger.url (LEASEFS_LEDGER) at your own, or take it out",
        url=address.url,
        uid=uid,
    )
