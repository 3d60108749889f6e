"""The values that make up the ledger's state. JSON-ready, so a snapshot is just these written out.

All times are seconds on the ledger's own clock (`leasefs.core.clock`), never a caller's.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from leasefs.core.lease import Mode

__all__ = ["Answered", "Claim", "Lease", "Session", "replace"]


class Answered(Struct, frozen=True):
    """A request that was carried out, kept so that the same key never acts twice (P6)."""

    key: str
    request: str
    lease_id: str


class Session(Struct, frozen=True):
    """One live mount or `run` of an agent. Only the hash of its secret is ever kept.

    `process` identifies the process behind it (boot, pid namespace, pid, start time), empty if there is
    none. `answered` are its last requests that acted, `fenced` its last leases that ended against its will
    with the reason, so that it can be told why (P10).
    """

    id: str
    secret_sha256: str
    agent: str
    harness: str
    territory: str
    kind: str
    host: str
    pid: int
    opened_at_s: float
    seen_at_s: float
    process: str = ""
    answered: tuple[Answered, ...] = ()
    fenced: tuple[tuple[str, str], ...] = ()


class Claim(Struct, frozen=True):
    """A request for a lease: all of its globs or none. While it waits, it is a waiter."""

    id: str
    territory: str
    session: str
    agent: str
    harness: str
    globs: tuple[str, ...]
    mode: Mode
    ttl_s: float
    priority: int
    claimed_at_s: float
    claimed_seq: int
    note: str = ""


class Lease(Struct, frozen=True):
    """A granted claim. `token` is the sequence number of the grant: the fencing token.

    `revoked_by` names the operator that ended it; its ground stays closed until its holder drops it
    or its deadline passes, because the holder may still trust it until then (P3).
    """

    claim: Claim
    token: int
    granted_at_s: float
    expires_at_s: float
    lapse_recorded: bool = False
    revoked_by: str = ""
    kept_by: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The claim's id: one id from the first request to the end of the lease."""
        return self.claim.id

    def lapsed(self, now_s: float) -> bool:
        """Whether the deadline has passed. Nobody may write under it; its holder may renew it (P5)."""
        return now_s >= self.expires_at_s
