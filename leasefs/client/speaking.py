"""Whether who answers speaks what we speak, and what a refusal means that an older one gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.core import protocol
from leasefs.core.errors import LeasefsError, LedgerUnavailable

if TYPE_CHECKING:
    from leasefs.core.protocol import Speaker

HEADER_KEY = protocol.HEADER.lower()
HEADER_BYTES = HEADER_KEY.encode("ascii")

# How an older ledger or mount refuses what was added since: there is no such path, or no such method on it.
_UNKNOWN_THERE = frozenset({"not-found", "method-not-allowed", "wrong-method"})


def require_understanding(us: Speaker, call: api.Call, spoken: str | None) -> Speaker:
    """Who answered, from the header `spoken` of the answer.

    Raises:
        ProtocolMismatch: with what we speak its answer cannot be understood.
        LedgerUnavailable: what answered is no ledger of ours.
    """
    them = protocol.heard(spoken, protocol.ANSWERING)
    if them is None:
        raise LedgerUnavailable(
            f"what answers there sends a {protocol.HEADER} that cannot be read; check ledger.url (LEASEFS_LEDGER)"
        )
    if _bare(call) not in protocol.ANY_VERSION:
        protocol.require_understanding(us, them)
    return them


def answer(us: Speaker, call: api.Call, spoken: str | None, status: int, body: bytes) -> api.Body:
    """As `api.answer`, of somebody whose version is looked at first.

    Raises:
        ProtocolMismatch: see `require_understanding`; or they are older and do not know what was asked for.
    """
    them = require_understanding(us, call, spoken)
    try:
        return api.answer(call, status, body)
    except LeasefsError as error:
        newer = protocol.lacking(us, them, f"{call.method} {_bare(call)}")
        if newer is not None and _unknown_there(error):
            raise newer from error
        raise


def _unknown_there(error: LeasefsError) -> bool:
    codes = {error.code, error.details.get("code")}  # the latter where no class of ours has it
    return bool(codes & _UNKNOWN_THERE) or "unknown_field" in error.details


def _bare(call: api.Call) -> str:
    return call.path.partition("?")[0]
