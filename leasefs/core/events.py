"""What can happen in the ledger. The log is a sequence of these and nothing else (P11).

An event states a fact that was decided; applying it asks no question. Old events must stay readable:
fields may be added with a default, never renamed or removed.
"""

from __future__ import annotations

from msgspec import Struct

from leasefs.core.event_base import Event as Event
from leasefs.core.identity_events import IdentityEvent as IdentityEvent
from leasefs.core.intents import ForeignChange, Outcome, Unleased
from leasefs.core.records import (
    Admission,
    Claim,
    Fresh,
    HandOff,
    Holder,
    Intent,
    Recall,
    Rescue,
    Session,
)


class LedgerStarted(Event, frozen=True, tag="ledger-started"):
    """A server took over the log. Holders get `grace_s` to reclaim before anything expires.

    `boottime_s` is what CLOCK_BOOTTIME of the boot `boot_id` said then, so that the next server of the
    same boot can go on with the same clock; 0 if the server did not say.
    """

    server: str
    boot_id: str
    grace_s: float
    boottime_s: float = 0.0


class LedgerRestored(Event, frozen=True, tag="ledger-restored"):
    """The log was brought back from a backup, which ends before this event: `backup_seq` is its last one.

    `head_before` is the last number known to have been handed out since, 0 if that is not known. Sessions, leases and waiting
    claims are over, freezes excepted; nothing is granted for `closed_for_s` seconds. See `leasefs.core.restoring`.
    """

    by: str
    backup_seq: int
    head_before: int
    closed_for_s: float


class LedgerReopened(Event, frozen=True, tag="ledger-reopened"):
    """Nobody can trust a lease of the lost past any more, or operator `by` says so: claims are granted again."""

    by: str = ""


class SessionOpened(Event, frozen=True, tag="session-opened"):
    """An agent's mount or run began."""

    session: Session


class SessionEnded(Event, frozen=True, tag="session-ended"):
    """The session is over; its leases were ended by events before this one."""

    session: str
    agent: str
    reason: str


class Granted(Event, frozen=True, tag="granted"):
    """The claim became a lease; this event's sequence number is its fencing token.

    `notes` are those that earlier holders of its ground left, newest first: they are handed over with this.
    `asked_by` is the session whose request it was, if that is another than the holder's (delegation).
    """

    claim: Claim
    key: str = ""
    request: str = ""
    notes: tuple[HandOff, ...] = ()
    asked_by: str = ""


class Queued(Event, frozen=True, tag="queued"):
    """The claim waits; `behind` are the ids of the first leases and claims it waits for.

    `ahead` are the sessions of all holders in its way, and of the first waiters. `eta_s` is the estimate that its maker
    was given, so that it can be compared with the grant; None: unknown.
    """

    claim: Claim
    behind: tuple[str, ...]
    key: str = ""
    request: str = ""
    eta_s: float | None = None
    ahead: tuple[str, ...] = ()


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
    """The holder gave the lease back; `returns_to` is the session whose lease it was carved out of.

    `note` is for the next holder, and `commit` what was checked out. `left` says what became of intents that had not
    ended: `kept` (they stay the agent's), `forced` (likewise, against the gate), `rescued`, or nothing if there
    were none.
    """

    lease: str
    agent: str
    token: int
    reason: str
    key: str = ""
    request: str = ""
    note: str = ""
    left: str = ""
    commit: str = ""
    returns_to: str = ""


class ReleaseRefused(Event, frozen=True, tag="release-refused"):
    """The release gate: the lease still has `count` intents, of which `paths` are the first."""

    session: str
    agent: str
    lease: str
    count: int
    paths: tuple[str, ...]


class Revoked(Event, frozen=True, tag="revoked"):
    """The lease can no longer be renewed: an operator ended it, or with `for_recall` its recall's deadline passed."""

    lease: str
    agent: str
    token: int
    by: str
    for_recall: bool = False


class Recalled(Event, frozen=True, tag="recalled"):
    """The holder is asked to yield; `recall` takes the place of what it was asked before.

    With a key it is the holder's own request for more time.
    """

    lease: str
    agent: str
    token: int
    recall: Recall
    key: str = ""
    request: str = ""


class RecallEnded(Event, frozen=True, tag="recall-ended"):
    """Nobody asks for the lease any more: its holder may keep it."""

    lease: str
    agent: str
    token: int
    reason: str


class Downgraded(Event, frozen=True, tag="downgraded"):
    """The exclusive lease is shared from here on; this event's number is its new fencing token."""

    lease: str
    agent: str
    former_token: int
    key: str = ""
    request: str = ""


class AdmissionSet(Event, frozen=True, tag="admission-set"):
    """How much work the territory takes on from here on."""

    territory: str
    admission: Admission
    key: str = ""
    request: str = ""


class HoldSet(Event, frozen=True, tag="hold-set"):
    """An operator let one lease be held until then, whatever admission says."""

    lease: str
    agent: str
    token: int
    hold_until_s: float
    by: str
    key: str = ""
    request: str = ""


class Expired(Event, frozen=True, tag="expired"):
    """The lease is over and its token fenced: taken by another claim, revoked, or forgotten.

    `returns_to` is as in `Released`.
    """

    lease: str
    agent: str
    token: int
    reason: str
    returns_to: str = ""


class WriteRefused(Struct, frozen=True):
    """A change that a mount did not let through (P10), or would not have, had it not only `observed`."""

    path: str
    op: str
    reason: str
    errno: str
    pid: int
    program: str
    wall_s: float
    observed: bool = False


class WritesRefused(Event, frozen=True, tag="writes-refused"):
    """A batch of refusals that a mount reported."""

    session: str
    agent: str
    refusals: tuple[WriteRefused, ...]


class IntentsNoted(Event, frozen=True, tag="intents-noted"):
    """What a mount changed, or the journal of a dead one said so: the intents as they stand now (P8)."""

    session: str
    agent: str
    territory: str
    tree: str
    host: str
    root: str
    intents: tuple[Intent, ...]


class Settled(Struct, frozen=True):
    """What became of a path, and whose intents that befell. With `done` nothing more is expected of it."""

    path: str
    outcome: Outcome
    whose: tuple[Holder, ...]
    commit: str = ""
    blob: str = ""
    done: bool = False


class IntentsSettled(Event, frozen=True, tag="intents-settled"):
    """Git was asked what became of paths that had intents."""

    session: str
    agent: str
    territory: str
    tree: str
    settled: tuple[Settled, ...]


class ForeignWrite(Struct, frozen=True):
    """A change of a tree that came through no mount.

    `holder` has the lease that covers the path; `session` is the holder's, which hears of it.
    """

    path: str
    what: ForeignChange
    wall_s: float
    holder: Holder | None = None
    session: str = ""


class ForeignWrites(Event, frozen=True, tag="foreign-writes"):
    """A batch of foreign writes that a mount of the tree saw.

    `events_lost` says that the kernel dropped events, and these are what was found different afterwards:
    what came and went meanwhile is not among them.
    """

    session: str
    agent: str
    tree: str
    changes: tuple[ForeignWrite, ...]
    how: Unleased = Unleased.BESIDE
    about: str = ""
    events_lost: bool = False


class Rescued(Event, frozen=True, tag="rescued"):
    """Uncommitted paths were snapshot; the intents of `ended` in that tree and lease ended with it (P9)."""

    session: str
    agent: str
    rescue: Rescue
    ended: tuple[str, ...]


class RescueDropped(Event, frozen=True, tag="rescue-dropped"):
    """Somebody had no use for a rescue any more."""

    session: str
    agent: str
    rescue: Rescue


class FreshRecorded(Event, frozen=True, tag="fresh-recorded"):
    """A check succeeded on a content (`leasefs fresh`)."""

    fresh: Fresh


AnyEvent = (
    LedgerStarted
    | LedgerRestored
    | LedgerReopened
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
    | Recalled
    | RecallEnded
    | Downgraded
    | AdmissionSet
    | HoldSet
    | Expired
    | WritesRefused
    | ReleaseRefused
    | IntentsNoted
    | IntentsSettled
    | ForeignWrites
    | Rescued
    | RescueDropped
    | FreshRecorded
    | IdentityEvent
)


class Recorded(Struct, frozen=True):
    """An event with its place in the log and the ledger time at which it was decided."""

    seq: int
    at_s: float
    event: AnyEvent
