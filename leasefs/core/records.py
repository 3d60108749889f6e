"""The values that make up the ledger's state. JSON-ready, so a snapshot is just these written out.

All times are seconds on the ledger's own clock (`leasefs.core.clock`), never a caller's.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from leasefs.core.intents import IntentKind, IntentState
from leasefs.core.lease import Mode
from leasefs.core.roles import Role

__all__ = [
    "Admission",
    "Answered",
    "Claim",
    "Fresh",
    "HandOff",
    "Holder",
    "Identity",
    "Intent",
    "Lease",
    "Recall",
    "Rescue",
    "Session",
    "Token",
    "Tree",
    "replace",
]


class Answered(Struct, frozen=True):
    """A request that was carried out, kept so that the same key never acts twice (P6)."""

    key: str
    request: str
    lease_id: str


class Fresh(Struct, frozen=True):
    """The last success under a key: of the command with this digest, on the content with that one (SHA-256)."""

    territory: str
    key: str
    content: str
    command: str
    globs: tuple[str, ...]
    files: int
    agent: str
    host: str
    took_s: float
    recorded_at_s: float = 0.0


class Session(Struct, frozen=True):
    """One live mount or `run` of an agent. Only the hash of its secret is ever kept.

    `process` identifies the process behind it (boot, pid namespace, pid, start time), empty if there is
    none. `answered` are its last requests that acted, `fenced` its last leases that ended against its will
    with the reason, so that it can be told why (P10). `identity` is the one of the agent's name; empty
    if there is none. `revoked_by` ended that: then the session may only give up what it holds.
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
    identity: str = ""
    revoked_by: str = ""


class Token(Struct, frozen=True):
    """What is kept of a token (`leasefs.core.tokens`). `good_until_s` is set once another one took its place."""

    id: str
    sha256: str
    issued_at_s: float
    good_until_s: float | None = None

    def is_good(self, now_s: float) -> bool:
        """Whether it may be used now, if its identity may."""
        return self.good_until_s is None or now_s < self.good_until_s


class Identity(Struct, frozen=True):
    """Somebody whom the ledger knows by a token, or by a local user's id.

    `uid` is that of the one local user whom it belongs to, if any, and `user` how that was called when it was added. It
    may claim with `priority` at most. `tokens` are its last ones, oldest first, so that who shows one that is over can be
    told why. A revoked one is kept until another of its name takes its place. `opened_at_s` is when it opened a session last.
    """

    name: str
    role: Role
    priority: int
    tokens: tuple[Token, ...]
    added_at_s: float
    added_by: str
    uid: int | None = None
    user: str = ""
    rotated_at_s: float | None = None
    rotated_by: str = ""
    revoked_at_s: float | None = None
    revoked_by: str = ""
    opened_at_s: float | None = None

    @property
    def is_live(self) -> bool:
        """Whether nobody has revoked it."""
        return self.revoked_at_s is None


class Admission(Struct, frozen=True):
    """How much work a territory takes on at once; None is no limit.

    `max_exclusive` counts live exclusive leases, `max_unlanded` the leases, live or over, under which work was done
    that has not landed: a claim above either waits. The other three are caps, and a claim above them is refused:
    leases of one agent, the share of the territory's files that one lease may cover (0 to 1), and how long one may
    be held. `reason` is quoted to whoever has to wait, `by` set it, and `version` is the number of the event that did.
    """

    max_exclusive: int | None = None
    max_unlanded: int | None = None
    max_leases: int | None = None
    max_share: float | None = None
    max_hold_s: float | None = None
    reason: str = ""
    by: str = ""
    version: int = 0


class Recall(Struct, frozen=True):
    """The ledger asked a holder to yield by `deadline_s` (P7).

    `claims` are the waiting claims it was asked for; none if an operator, a cap or a delegating holder asks.
    `within_s` is how long the holder was given, at first. `cold` says that no write may pass any more even now.
    """

    by: str
    reason: str
    deadline_s: float
    within_s: float
    claims: tuple[str, ...] = ()
    cold: bool = False
    extended: bool = False


class Claim(Struct, frozen=True):
    """A request for a lease: all of its globs or none. While it waits, it is a waiter.

    `recall_within_s` is set if leases of lower priority are to be recalled for it. `replaces` is the shared lease
    that ends when this claim is granted (upgrade), `parent` the lease that this one was carved out of (delegation),
    `resumes` the recalled lease that this claim brings back to its holder. `frozen_by` names the operator of a
    freeze, which is a shared lease that nobody may write under. `queued_at_s` is when it began to wait, if that
    was not when it was made.
    """

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
    recall_within_s: float | None = None
    replaces: str = ""
    parent: str = ""
    resumes: str = ""
    frozen_by: str = ""
    queued_at_s: float | None = None


class HandOff(Struct, frozen=True):
    """What a holder left for whoever holds overlapping ground next. Handed over once.

    `text` is its note, which may be empty; `commit` what its tree had checked out, empty if it did not say.
    """

    lease: str
    territory: str
    agent: str
    harness: str
    globs: tuple[str, ...]
    text: str
    left_at_s: float
    commit: str = ""


class Lease(Struct, frozen=True):
    """A granted claim. `token` is the sequence number of the grant: the fencing token.

    `revoked_by` names the operator that ended it; its ground stays closed until its holder drops it
    or its deadline passes, because the holder may still trust it until then (P3). `inherited` are the notes
    that it was handed, newest first. `hold_until_s` is set if an operator let it be held for longer, or shorter,
    than its territory's admission says.
    """

    claim: Claim
    token: int
    granted_at_s: float
    expires_at_s: float
    lapse_recorded: bool = False
    revoked_by: str = ""
    kept_by: tuple[str, ...] = ()
    inherited: tuple[HandOff, ...] = ()
    recall: Recall | None = None
    hold_until_s: float | None = None

    @property
    def id(self) -> str:
        """The claim's id: one id from the first request to the end of the lease."""
        return self.claim.id

    def lapsed(self, now_s: float) -> bool:
        """Whether the deadline has passed. Nobody may write under it; its holder may renew it (P5)."""
        return now_s >= self.expires_at_s


class Tree(Struct, frozen=True):
    """One working tree on one host. Its id stays the same while it stays where it is."""

    id: str
    host: str
    root: str


class Holder(Struct, frozen=True):
    """An agent and the lease that something was done under, or is covered by."""

    agent: str
    lease: str


class Intent(Struct, frozen=True):
    """A path of a tree that an agent changed under a lease, and that has not landed (P8).

    A directory's path ends in a slash: everything below may have changed. `fenced` says that it was reported
    when its token was no longer that of a live lease, `recovered` that a journal told it and not its own
    mount. `commit` and `blob` are those of the last commit known to hold the path, also of one that has been
    changed again since. `first_wall_s` and `last_wall_s` are seconds since 1970 on the tree's host, for reading.
    """

    path: str
    kind: IntentKind
    tree: str
    lease: str
    token: int
    agent: str
    harness: str
    pid: int
    program: str
    first_wall_s: float
    last_wall_s: float
    size: int
    state: IntentState = IntentState.DIRTY
    commit: str = ""
    blob: str = ""
    other: str = ""
    fenced: bool = False
    recovered: bool = False


class Rescue(Struct, frozen=True):
    """A snapshot of a lease's uncommitted paths as a commit under `refs/leasefs/rescue/` (P9).

    `id` is the last part of `ref`. `paths` counts what is in it, `names` are the first of them. It lies in the
    repository of the tree `root` on `host`; `by` is the agent whose mount or command made it.
    """

    id: str
    territory: str
    tree: str
    lease: str
    token: int
    agent: str
    harness: str
    globs: tuple[str, ...]
    ref: str
    commit: str
    paths: int
    names: tuple[str, ...]
    reason: str
    wall_s: float
    by: str = ""
    host: str = ""
    root: str = ""
