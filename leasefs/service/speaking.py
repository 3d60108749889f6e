"""Whether who asks speaks what the ledger speaks: looked at before anything else of a request is."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from leasefs.core import protocol
from leasefs.core.errors import InvalidRequest

if TYPE_CHECKING:
    from leasefs.service.exchange import Call

_KEY = protocol.HEADER.lower().encode("ascii")
_US = protocol.ours(protocol.LEDGER)


def require_understanding(call: Call, path: str) -> None:
    """Refuse a request that may mean something else to who sent it.

    Raises:
        ProtocolMismatch: its major version is another; the message says which side to upgrade.
        InvalidRequest: its version cannot be read.
    """
    if path not in protocol.ANY_VERSION:
        protocol.require_understanding(_US, _heard(call.header(_KEY)))


@lru_cache(maxsize=64)  # one line of each release that asks; the requests of a mount are many
def _heard(value: bytes | None) -> protocol.Speaker:
    spoken = None if value is None else value.decode("latin-1")
    them = protocol.heard(spoken, protocol.ASKING)
    if them is None:
        raise InvalidRequest(f"{protocol.HEADER} cannot be read; it begins with MAJOR.MINOR")
    return them
