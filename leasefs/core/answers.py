"""What the ledger tells a caller. Durations, never times: no two hosts share a clock (P3)."""

from __future__ import annotations

from msgspec import Struct

from leasefs.core.lease import Mode
from leasefs.core.records import Intent, Rescue

# A long queue on one path would otherwise be told once for each of its waiters.
BLOCKERS_SHOWN = 16


class Blocker(Struct, frozen=True):
    """A lease or an earlier waiter that stands before a claim; `witness` is a path both match."""

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


class NoteAnswer(Struct, frozen=True):
    """The note that an earlier holder of the ground left with its release."""

    lease: str
    agent: str
    harness: str
    globs: tuple[str, ...]
    text: str
    left_ago_s: float


class Inherited(Struct, frozen=True):
    """What a holder finds on its ground (P9).

    `note` is the newest of those that were handed over with the grant. `uncommitted` are the first of
    `uncommitted_count` paths that other agents changed and have not committed, in any tree.
    """

    note: NoteAnswer | None = None
    earlier_notes: tuple[NoteAnswer, ...] = ()
    rescues: tuple[Rescue, ...] = ()
    uncommitted: tuple[Intent, ...] = ()
    uncommitted_count: int = 0


class LeaseAnswer(Struct, frozen=True):
    """A claim and what became of it.

    `state` is `granted`, `lapsed`, `revoked`, `waiting`, or `ended`. `position` counts the conflicting
    claims before a waiter plus one, so 1 is next; `eta_s` is an estimate from past hold times, None
    when unknown. `waits_for` names the first BLOCKERS_SHOWN of those it waits for, holders before waiters.
    `token` is 0 until granted. `inherits` is there for a lease that is held and was asked for by itself.
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


class RenewedLease(Struct, frozen=True):
    """A lease that a heartbeat kept: good for `ttl_s` from when the heartbeat was sent (P3)."""

    lease: str
    token: int
    ttl_s: float


class LostLease(Struct, frozen=True):
    """A lease that can no longer be renewed, and why."""

    lease: str
    reason: str


class HeartbeatAnswer(Struct, frozen=True):
    """What a heartbeat kept and what is lost."""

    renewed: tuple[RenewedLease, ...] = ()
    lost: tuple[LostLease, ...] = ()


class SessionAnswer(Struct, frozen=True):
    """A session as anybody may see it."""

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
    """An intent with where it is: `root` on `host`. `held` says whether its lease is still there."""

    territory: str
    host: str
    root: str
    held: bool
