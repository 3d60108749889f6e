"""What can happen in the ledger. The log is a sequence of these and nothing else (P11).

An event states a fact that was decided; applying it asks no question. Old events must stay readable:
fields may be added with a default, never renamed or removed.
"""

from __future__ import annotations

from msgspec import Struct

from leasefs.core.records import Claim, Session


class Event(Struct, frozen=True, tag_field="type"):
    """Base of all events."""


class LedgerStarted(Event, frozen=True, tag="ledger-started"):
    """A server took over the log. Holders get `grace_s` to reclaim before anything expires.

    `boottime_s` is what CLOCK_BOOTTIME of the boot `boot_id` said then, so that the next server of the
    same boot can go on with the same clock; 0 if the server did not say.
    """

    server: str
    boot_id: str
    grace_s: float
    boottime_s: float = 0.0


class SessionOpened(Event, frozen=True, tag="session-opened"):
    """An agent's mount or run began."""

    session: Session


class SessionEnded(Event, frozen=True, tag="session-ended"):
    """The session is over; its leases were ended by events before this one."""

    session: str
    agent: str
    reason: str


class Granted(Event, frozen=True, tag="granted"):
    """The claim became a lease; this event's sequence number is its fencing token."""

    claim: Claim
    key: str = ""
    request: str = ""


class Queued(Event, frozen=True, tag="queued"):
    """The claim waits; `behind` are the ids of the first leases and claims it waits for."""

    claim: Claim
    behind: tuple[str, ...]
    key: str = ""
    request: str = ""


class ClaimRefused(Event, frozen=True, tag="claim-refused"):
    """A claim that could not be granted and would not, or must not, wait."""

    session: str
    agent: str
    territory: str
    globs: tuple[str, ...]
    code: str
    message: str


class Withdrawn(Event, frozen=True, tag="withdrawn"):
    """A waiter left the queue without a lease."""

    claim: str
    agent: str
    reason: str
    key: str = ""
    request: str = ""


class Renewal(Struct, frozen=True):
    """One lease of a heartbeat: its new deadline and what keeps it alive (P4)."""

    lease: str
    expires_at_s: float
    ttl_s: float
    kept_by: tuple[str, ...] = ()


class Renewed(Event, frozen=True, tag="renewed"):
    """A heartbeat: the session lives, and these of its leases have a later deadline."""

    session: str
    leases: tuple[Renewal, ...]


class Lapsed(Event, frozen=True, tag="lapsed"):
    """The deadline passed without a heartbeat. The holder may still renew it (P5)."""

    lease: str
    agent: str
    token: int


class Released(Event, frozen=True, tag="released"):
    """The holder gave the lease back."""

    lease: str
    agent: str
    token: int
    reason: str
    key: str = ""
    request: str = ""


class Revoked(Event, frozen=True, tag="revoked"):
    """An operator ended the lease; it can no longer be renewed."""

    lease: str
    agent: str
    token: int
    by: str


class Expired(Event, frozen=True, tag="expired"):
    """The lease is over and its token fenced: taken by another claim, revoked, or forgotten."""

    lease: str
    agent: str
    token: int
    reason: str


class WriteRefused(Struct, frozen=True):
    """A change that a mount did not let through (P10)."""

    path: str
    op: str
    reason: str
    errno: str
    pid: int
    program: str
    wall_s: float


class WritesRefused(Event, frozen=True, tag="writes-refused"):
    """A batch of refusals that a mount reported."""

    session: str
    agent: str
    refusals: tuple[WriteRefused, ...]


AnyEvent = (
    LedgerStarted
    | SessionOpened
    | SessionEnded
    | Granted
    | Queued
    | ClaimRefused
    | Withdrawn
    | Renewed
    | Lapsed
    | Released
    | Revoked
    | Expired
    | WritesRefused
)


class Recorded(Struct, frozen=True):
    """An event with its place in the log and the ledger time at which it was decided."""

    seq: int
    at_s: float
    event: AnyEvent
