"""What the ledger tells a caller. Durations, never times: no two hosts share a clock (P3)."""

from __future__ import annotations

from msgspec import Struct

from leasefs.core.lease import Mode
from leasefs.core.records import Admission, Intent, Rescue
from leasefs.core.roles import Role

# A long queue on one path would otherwise be told once for each of its waiters.
BLOCKERS_SHOWN = 16


class Blocker(Struct, frozen=True):
    """What stands before a claim; `witness` is a path both match.

    `kind` is `lease`, `claim` (an earlier waiter), `freeze`, `admission`, or `closed` (nothing is granted at all); the last three give their `reason`, and
    admission is nobody's ground, so it has no globs. `yields_in_s` is until when a recalled lease must be given up.
    """

    id: str
    kind: str
    session: str
    agent: str
    harness: str
    mode: Mode
    glob: str
    wanted: str
    witness: str
    expires_in_s: float | None
    revoked: bool = False
    yields_in_s: float | None = None
    reason: str = ""


class GlobPlace(Struct, frozen=True):
    """A waiter's place for one of its globs: how many claims must be served before it there, plus one."""

    glob: str
    position: int
    waits_for: tuple[str, ...] = ()


class RecallAnswer(Struct, frozen=True):
    """The holder is to yield within `yields_in_s`; it may ask for `may_ask_for_s` more, once."""

    by: str
    reason: str
    yields_in_s: float
    may_ask_for_s: float
    cold: bool
    claims: tuple[str, ...] = ()


class NoteAnswer(Struct, frozen=True):
    """What an earlier holder of the ground left with its release: a note, and the commit that it had checked out."""

    lease: str
    agent: str
    harness: str
    globs: tuple[str, ...]
    text: str
    left_ago_s: float
    commit: str = ""


class Inherited(Struct, frozen=True):
    """What a holder finds on its ground (P9).

    `note` is the newest of those that were handed over with the grant. `rescues` are the newest of `rescues_count`, with
    names as far as there is room for them. `uncommitted` are the first of `uncommitted_count` paths that other agents
    changed and have not committed, in any tree.
    """

    note: NoteAnswer | None = None
    earlier_notes: tuple[NoteAnswer, ...] = ()
    rescues: tuple[Rescue, ...] = ()
    uncommitted: tuple[Intent, ...] = ()
    uncommitted_count: int = 0
    rescues_count: int = 0


class LeaseAnswer(Struct, frozen=True):
    """A claim and what became of it.

    `state` is `granted`, `lapsed`, `revoked`, `waiting`, or `ended`. `position` counts the conflicting
    claims before a waiter plus one, so 1 is next; `eta_s` is an estimate from past hold times, None
    when unknown. `waits_for` names the first BLOCKERS_SHOWN of those it waits for, holders before waiters.
    `token` is 0 until granted. `inherits` is there for a lease that is held and was asked for by itself.
    `eta_low_s` and `eta_high_s` are a quarter of past cases to either side, `eta_from` how many hold times that rests on.
    `places` has the place for each glob. `recall` is there for a lease that must be given up, `delegated` names
    globs of it that were given to others, `hold_ends_in_s` is when it must end if its territory caps holds.
    """

    lease: str
    state: str
    agent: str = ""
    harness: str = ""
    session: str = ""
    territory: str = ""
    globs: tuple[str, ...] = ()
    mode: Mode = Mode.EXCLUSIVE
    ttl_s: float = 0.0
    priority: int = 0
    token: int = 0
    expires_in_s: float | None = None
    held_for_s: float | None = None
    kept_by: tuple[str, ...] = ()
    waiting_for_s: float | None = None
    position: int | None = None
    eta_s: float | None = None
    waits_for: tuple[Blocker, ...] = ()
    note: str = ""
    inherits: Inherited | None = None
    eta_low_s: float | None = None
    eta_high_s: float | None = None
    eta_from: int = 0
    places: tuple[GlobPlace, ...] = ()
    recall: RecallAnswer | None = None
    parent: str = ""
    delegated: tuple[str, ...] = ()
    replaces: str = ""
    resumes: str = ""
    frozen_by: str = ""
    hold_ends_in_s: float | None = None


class RegionsAnswer(Struct, frozen=True):
    """The leases that were granted together, in the order asked for."""

    leases: tuple[LeaseAnswer, ...]


class AdmissionAnswer(Struct, frozen=True):
    """How much work a territory takes on, and how much there is now."""

    territory: str
    admission: Admission
    exclusive: int
    unlanded: int
    waiting: int


class RenewedLease(Struct, frozen=True, omit_defaults=True):
    """A lease that a heartbeat kept: good for `ttl_s` from when the heartbeat was sent (P3).

    With `recall` it must be given up, however often it is renewed.
    """

    lease: str
    token: int
    ttl_s: float
    recall: RecallAnswer | None = None


class LostLease(Struct, frozen=True):
    """A lease that can no longer be renewed, and why."""

    lease: str
    reason: str


class HeartbeatAnswer(Struct, frozen=True):
    """What a heartbeat kept and what is lost."""

    renewed: tuple[RenewedLease, ...] = ()
    lost: tuple[LostLease, ...] = ()


class SessionAnswer(Struct, frozen=True):
    """A session as anybody may see it. `process` names the one behind it (boot, pid namespace, pid, start), if there is one."""

    session: str
    agent: str
    harness: str
    territory: str
    kind: str
    host: str
    pid: int
    live: bool
    open_for_s: float
    seen_ago_s: float
    identity: str = ""
    process: str = ""


class AgentAnswer(Struct, frozen=True):
    """An identity as anybody may see it. It may claim with `priority` at most; `sessions` are its live ones.

    `used_ago_s` is since it was last heard of, None: never. `former_token_good_for_s` is there while the token before
    the present one is good as well.
    """

    agent: str
    role: Role
    priority: int
    added_ago_s: float
    added_by: str
    user: str = ""
    uid: int | None = None
    rotated_ago_s: float | None = None
    rotated_by: str = ""
    revoked_ago_s: float | None = None
    revoked_by: str = ""
    former_token_good_for_s: float | None = None
    used_ago_s: float | None = None
    sessions: tuple[str, ...] = ()


class FreshAnswer(Struct, frozen=True):
    """The last success under a key, `ago_s` ago. `content` and `command` are digests; who compares knows of what."""

    territory: str
    key: str
    content: str
    command: str
    globs: tuple[str, ...]
    files: int
    agent: str
    host: str
    took_s: float
    ago_s: float


class Done(Struct, frozen=True):
    """The request was carried out and there is nothing to tell."""

    ok: bool = True


class StaleNote(Struct, frozen=True):
    """A change made under a token that is no longer that of a live lease of the reporter."""

    path: str
    lease: str
    token: int


class IntentsAnswer(Struct, frozen=True):
    """All of them were kept, and these of them are stale."""

    accepted: int
    stale: tuple[StaleNote, ...] = ()


class SettledAnswer(Struct, frozen=True):
    """How many intents that befell, and how many of them are over."""

    settled: int
    ended: int


class HeldPath(Struct, frozen=True):
    """A path and who has the lease over it."""

    path: str
    agent: str
    lease: str


class ForeignAnswer(Struct, frozen=True):
    """Those of the reported paths that somebody holds."""

    held: tuple[HeldPath, ...] = ()


class RescueAnswer(Struct, frozen=True):
    """The rescue as it is kept, and how many intents this report ended."""

    rescue: Rescue
    ended: int


class Dropped(Struct, frozen=True):
    """Whether there was a rescue with this id."""

    dropped: bool


class IntentAnswer(Intent, frozen=True, kw_only=True):
    """An intent with where it is: `root` on `host`. `held` says whether its lease is still there.

    `handed_on` says that it was given back for others to build upon.
    """

    territory: str
    host: str
    root: str
    held: bool
    handed_on: bool = False
