"""What the ledger can be asked to do. A command is a wish; `leasefs.core.ledger.decide` judges it.

`session` in a command names an authenticated caller: whoever builds the command has checked its
secret against the stored hash.
"""

from __future__ import annotations

from msgspec import Struct

from leasefs.core.events import WriteRefused
from leasefs.core.lease import DEFAULT_TTL_S, Mode


class Command(Struct, frozen=True):
    """Base of all commands."""


class StartLedger(Command, frozen=True):
    """A server begins to serve this log."""

    server: str
    boot_id: str
    boottime_s: float = 0.0


class OpenSession(Command, frozen=True):
    """Begin a session. The caller chose id and secret, so sending it twice opens one (P6).

    `predecessor_dead` is set by a server that has seen that the process behind the agent's present
    session no longer exists; `replace` ends a live one, whose ground stays closed until its leases
    would have expired (P3).
    """

    session: str
    secret_sha256: str
    agent: str
    harness: str
    territory: str
    kind: str
    host: str
    pid: int
    process: str = ""
    replace: bool = False
    predecessor_dead: bool = False


class EndSession(Command, frozen=True):
    """End a session by its own wish: it has stopped writing, its leases are free at once."""

    session: str
    reason: str = "ended"


class ClaimLease(Command, frozen=True):
    """Ask for a lease over all of `globs` or none (P6). With `wait`, queue instead of a refusal."""

    session: str
    key: str
    globs: tuple[str, ...]
    mode: Mode = Mode.EXCLUSIVE
    ttl_s: float = DEFAULT_TTL_S
    priority: int = 0
    wait: bool = False
    note: str = ""


class ReleaseLease(Command, frozen=True):
    """Give back a lease, or withdraw a waiting claim."""

    session: str
    key: str
    lease: str
    reason: str = "released"


class RevokeLease(Command, frozen=True):
    """An operator ends a lease or a waiting claim of somebody else."""

    operator: str
    lease: str


class Beat(Struct, frozen=True):
    """One lease in a heartbeat: used since the last one, by whom (`pid program path`)."""

    lease: str
    token: int
    kept_by: tuple[str, ...] = ()


class Heartbeat(Command, frozen=True):
    """The session lives; renew `renew`; `dropped` leases are no longer trusted by the holder."""

    session: str
    renew: tuple[Beat, ...] = ()
    dropped: tuple[str, ...] = ()


class ReportRefusals(Command, frozen=True):
    """A mount reports changes it did not let through."""

    session: str
    refusals: tuple[WriteRefused, ...]


class Tick(Command, frozen=True):
    """Time has passed: look at these leases and sessions, whose deadlines are due."""

    leases: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


AnyCommand = (
    StartLedger
    | OpenSession
    | EndSession
    | ClaimLease
    | ReleaseLease
    | RevokeLease
    | Heartbeat
    | ReportRefusals
    | Tick
)
