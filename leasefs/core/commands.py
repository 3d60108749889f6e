"""What the ledger can be asked to do. A command is a wish; `leasefs.core.ledger.decide` judges it.

`session` in a command names an authenticated caller: whoever builds the command has checked its
secret against the stored hash.
"""

from __future__ import annotations

from msgspec import Struct

from leasefs.core.command_base import Command as Command
from leasefs.core.events import WriteRefused
from leasefs.core.identity_commands import AddAgent as AddAgent
from leasefs.core.identity_commands import ChangeAgent as ChangeAgent
from leasefs.core.identity_commands import IdentityCommand
from leasefs.core.identity_commands import RevokeAgent as RevokeAgent
from leasefs.core.identity_commands import RotateAgent as RotateAgent
from leasefs.core.intents import ForeignChange, IntentKind, OnDirty, Outcome, Require, Unleased
from leasefs.core.lease import DEFAULT_TTL_S, Mode
from leasefs.core.records import Admission, Fresh, Rescue


class StartLedger(Command, frozen=True):
    """A server begins to serve this log."""

    server: str
    boot_id: str
    boottime_s: float = 0.0


class OpenSession(Command, frozen=True):
    """Begin a session. The caller chose id and secret, so sending it twice opens one (P6).

    `predecessor_dead` is set by a server that has seen that the process behind the agent's present
    session no longer exists; `replace` ends a live one, whose ground stays closed until its leases
    would have expired (P3). `identity` is who asks, if the ledger knows it as one; it has `most_sessions` at most, 0
    being no limit.
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
    identity: str = ""
    most_sessions: int = 0


class EndSession(Command, frozen=True):
    """End a session by its own wish: it has stopped writing, its leases are free at once."""

    session: str
    reason: str = "ended"


class ClaimLease(Command, frozen=True):
    """Ask for a lease over all of `globs` or none (P6). With `wait`, queue instead of a refusal.

    With `recall_within_s` (and `wait`), holders of lower priority are asked to yield within so many seconds; 0 stops
    their writes at once. `replaces` names a shared lease of the session, given up when this is granted: an upgrade. The grant may
    be heard late, so whoever asks counts on the shared lease no more.
    `share` is the part of the territory's files under the globs, as whoever asks counted, for a cap on it. With
    `most_waiting` claims of its client in the queue already, it does not wait; 0 is no limit.
    """

    session: str
    key: str
    globs: tuple[str, ...]
    mode: Mode = Mode.EXCLUSIVE
    ttl_s: float = DEFAULT_TTL_S
    priority: int = 0
    wait: bool = False
    note: str = ""
    recall_within_s: float | None = None
    replaces: str = ""
    share: float | None = None
    most_waiting: int = 0


class Region(Struct, frozen=True):
    """One lease of a `ClaimRegions`."""

    globs: tuple[str, ...]
    note: str = ""
    share: float | None = None


class ClaimRegions(Command, frozen=True):
    """Ask for several leases at once: all are granted or none is, and nothing waits."""

    session: str
    key: str
    regions: tuple[Region, ...]
    mode: Mode = Mode.EXCLUSIVE
    ttl_s: float = DEFAULT_TTL_S
    priority: int = 0


class DowngradeLease(Command, frozen=True):
    """Let others share what was held alone. Whoever asks writes under it no more."""

    session: str
    key: str
    lease: str


class DelegateLease(Command, frozen=True):
    """Give a part of a lease to another agent's live session, until that gives it back or lapses.

    Whoever asks writes there no more. `ttl_s` None takes the parent's. `on_dirty` is as in a release.
    """

    session: str
    key: str
    lease: str
    globs: tuple[str, ...]
    to: str
    ttl_s: float | None = None
    note: str = ""
    on_dirty: OnDirty = OnDirty.REFUSE


class ReleaseLease(Command, frozen=True):
    """Give back a lease, or withdraw a waiting claim.

    `require` is what its intents must have come to, `on_dirty` what to do if they have not; `note` is for the
    next holder of the ground, and `commit` what was checked out. With `again`, a lease that was recalled is claimed
    again in the same decision, behind those that it was recalled for.
    """

    session: str
    key: str
    lease: str
    reason: str = "released"
    require: Require = Require.COMMITTED
    on_dirty: OnDirty = OnDirty.REFUSE
    note: str = ""
    commit: str = ""
    again: bool = False


class RecallLease(Command, frozen=True):
    """Ask the holder to yield within so many seconds, as operator `by`, or as the holder of the parent (`session`)."""

    lease: str
    within_s: float
    reason: str = ""
    by: str = ""
    session: str = ""


class AskForTime(Command, frozen=True):
    """The holder of a recalled lease asks for more time: once, and no more than it was given at first."""

    session: str
    lease: str
    extra_s: float
    key: str = ""


class SetAdmission(Command, frozen=True):
    """An operator, or CI, says how much work a territory takes on.

    With `expected`, only if the limits are still those of that version: nobody set others meanwhile.
    """

    territory: str
    admission: Admission
    key: str = ""
    expected: int | None = None


class SetHold(Command, frozen=True):
    """An operator lets one lease be held for so many seconds from now, whatever admission says."""

    operator: str
    lease: str
    hold_s: float
    key: str = ""


class Freeze(Command, frozen=True):
    """An operator lets nobody write under `globs`; holders are asked to yield within `within_s`.

    `key` makes it once (P6). Without `ttl_s` it lasts until it is lifted.
    """

    operator: str
    key: str
    territory: str
    globs: tuple[str, ...]
    reason: str
    within_s: float = 60.0
    ttl_s: float | None = None


class Unfreeze(Command, frozen=True):
    """An operator lifts a freeze; who was recalled for it gets its ground back."""

    operator: str
    lease: str
    key: str = ""


class ReopenLedger(Command, frozen=True):
    """An operator knows that nobody trusts a lease any more that a restored backup does not know of."""

    operator: str


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


class Note(Struct, frozen=True):
    """One line of a mount's journal: a path was about to change, under this lease, at `wall_s`."""

    path: str
    kind: IntentKind
    lease: str
    token: int
    wall_s: float
    pid: int = 0
    program: str = ""
    size: int = 0
    other: str = ""


class ReportIntents(Command, frozen=True):
    """What changed in a tree (P8).

    `recovered` notes are those of a dead mount's journal: of leases of other sessions too, and made by `agent`
    if the ledger no longer knows the lease.
    """

    session: str
    tree: str
    host: str
    root: str
    notes: tuple[Note, ...]
    recovered: bool = False
    agent: str = ""
    harness: str = ""


class Settlement(Struct, frozen=True):
    """What git says of one path; `done` with `committed`: there is nowhere for it to land.

    `leases` are those under which whoever says so looks after the path. What was changed under another lease that a
    live session holds is then left to that session's own mount: it would tell nothing of the next change.
    """

    path: str
    outcome: Outcome
    commit: str = ""
    blob: str = ""
    done: bool = False
    leases: tuple[str, ...] = ()


class SettleIntents(Command, frozen=True):
    """What became of paths of a tree, whoever changed them.

    What was changed after `as_of_wall_s` (on the tree's host) is not settled by what was seen before.
    """

    session: str
    tree: str
    settled: tuple[Settlement, ...]
    as_of_wall_s: float | None = None


class ForeignReport(Struct, frozen=True):
    """A change that came through no mount."""

    path: str
    what: ForeignChange
    wall_s: float


class ReportForeignWrites(Command, frozen=True):
    """A mount reports what changed in its tree that no lease stood for; `about` names a commit or a command.

    `events_lost` is as in `ForeignWrites`.
    """

    session: str
    tree: str
    changes: tuple[ForeignReport, ...]
    how: Unleased = Unleased.BESIDE
    about: str = ""
    events_lost: bool = False


class ReportRescue(Command, frozen=True):
    """A snapshot was made of `contained`; if that is not said, of the paths that the rescue names.

    Sent again for the same snapshot it adds to what is contained.
    """

    session: str
    rescue: Rescue
    contained: tuple[str, ...] | None = None


class DropRescue(Command, frozen=True):
    """Forget a rescue. One that is not known is no error: it may be the second request (P6)."""

    session: str
    id: str


class RecordFresh(Command, frozen=True):
    """A check succeeded. Needs no session: it lets nobody write."""

    fresh: Fresh


class Tick(Command, frozen=True):
    """Time has passed: look at these leases and sessions, whose deadlines are due."""

    leases: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


AnyCommand = (
    StartLedger
    | OpenSession
    | EndSession
    | ClaimLease
    | ClaimRegions
    | ReleaseLease
    | DowngradeLease
    | DelegateLease
    | RecallLease
    | AskForTime
    | SetAdmission
    | SetHold
    | Freeze
    | Unfreeze
    | ReopenLedger
    | RevokeLease
    | Heartbeat
    | ReportRefusals
    | ReportIntents
    | SettleIntents
    | ReportForeignWrites
    | ReportRescue
    | DropRescue
    | RecordFresh
    | IdentityCommand
    | Tick
)
