"""What callers may send: the bodies and query strings of the API, checked by msgspec before anything else.

Unknown fields are refused, so that a misspelt one is not silently ignored. Limits here bound what would
otherwise be unbounded and go into the log; what a value must mean is judged in `core`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from leasefs.core.commands import Beat, ClaimLease, Heartbeat, OpenSession, ReleaseLease
from leasefs.core.events import WriteRefused
from leasefs.core.intents import OnDirty, Require
from leasefs.core.lease import DEFAULT_TTL_S, Mode
from leasefs.core.records import Fresh

MAX_WAIT_S = 300.0
MAX_EVENTS = 10_000
MAX_BATCH = 1_000

Name = Annotated[str, Meta(max_length=512)]
Line = Annotated[str, Meta(max_length=16_384)]
SmallInt = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
OnBehalfOf = Annotated[str, Meta(max_length=256)]
Secret = Annotated[str, Meta(min_length=32, max_length=256)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
WallTime = Annotated[float, Meta(ge=-1e12, le=1e12)]


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all bodies; itself one that says nothing."""


class OpenBody(Body, frozen=True):
    """Begin a session. The caller chose `session` and `secret` at random."""

    session: Name
    secret: Secret
    agent: Name
    harness: Name
    territory: Name
    kind: Name
    host: Name = ""
    pid: Pid = 0
    process: Name = ""
    replace: bool = False

    def command(
        self, secret_sha256: str, *, predecessor_dead: bool, identity: str = ""
    ) -> OpenSession:
        """The command of `identity`, if who asks is one."""
        return OpenSession(
            session=self.session,
            secret_sha256=secret_sha256,
            agent=self.agent,
            harness=self.harness,
            territory=self.territory,
            kind=self.kind,
            host=self.host,
            pid=self.pid,
            process=self.process,
            replace=self.replace,
            predecessor_dead=predecessor_dead,
            identity=identity,
        )


class ClaimBody(Body, frozen=True):
    """Ask for a lease over all of `globs` or none."""

    key: Name
    globs: tuple[Line, ...]
    mode: Mode = Mode.EXCLUSIVE
    ttl_s: float = DEFAULT_TTL_S
    priority: SmallInt = 0
    wait: bool = False
    note: Line = ""
    recall_within_s: float | None = None
    replaces: Name = ""
    share: Share | None = None

    def command(self, session: str) -> ClaimLease:
        """The command of this session."""
        return ClaimLease(
            session,
            self.key,
            self.globs,
            self.mode,
            self.ttl_s,
            self.priority,
            self.wait,
            self.note,
            self.recall_within_s,
            self.replaces,
            self.share,
        )


class BeatBody(Body, frozen=True):
    """A lease used since the last heartbeat, and by whom (`pid program path`)."""

    lease: Name
    token: Seq
    kept_by: Annotated[tuple[Line, ...], Meta(max_length=16)] = ()


class HeartbeatBody(Body, frozen=True):
    """The session lives; renew these, and these it does not trust any more."""

    renew: Annotated[tuple[BeatBody, ...], Meta(max_length=10_000)] = ()
    dropped: Annotated[tuple[Name, ...], Meta(max_length=10_000)] = ()

    def command(self, session: str) -> Heartbeat:
        """The command of this session."""
        beats = tuple(Beat(beat.lease, beat.token, beat.kept_by) for beat in self.renew)
        return Heartbeat(session, beats, self.dropped)


class RevokeBody(Body, frozen=True):
    """`by` says in words on whose behalf the operator acts."""

    by: OnBehalfOf = ""


class RefusalBody(Body, frozen=True):
    """A change that a mount did not let through, or only observed."""

    path: Line
    op: Name
    reason: Line
    errno: Name
    pid: Pid
    program: Line
    wall_s: WallTime
    observed: bool = False

    def refusal(self) -> WriteRefused:
        """As the history has it."""
        return WriteRefused(
            path=self.path,
            op=self.op,
            reason=self.reason,
            errno=self.errno,
            pid=self.pid,
            program=self.program,
            wall_s=self.wall_s,
            observed=self.observed,
        )


class RefusalsBody(Body, frozen=True):
    """A batch of refusals."""

    refusals: Annotated[tuple[RefusalBody, ...], Meta(max_length=1_000)]


class ClaimOp(ClaimBody, frozen=True, tag_field="op", tag="claim"):
    """A claim in a batch."""


class ReleaseOp(Body, frozen=True, tag_field="op", tag="release"):
    """A release in a batch."""

    lease: Name
    key: Name
    require: Require = Require.COMMITTED
    dirty: OnDirty = OnDirty.REFUSE
    note: Line = ""
    commit: Name = ""
    again: bool = False

    def command(self, session: str) -> ReleaseLease:
        """The command of this session."""
        return _release(session, self.lease, self)


def _release(session: str, lease: str, wish: ReleaseOp | ReleaseQuery) -> ReleaseLease:
    return ReleaseLease(
        session,
        wish.key,
        lease,
        require=wish.require,
        on_dirty=wish.dirty,
        note=wish.note,
        commit=wish.commit,
        again=wish.again,
    )


class BatchBody(Body, frozen=True):
    """Each is decided on its own; all become durable in one commit."""

    requests: Annotated[tuple[ClaimOp | ReleaseOp, ...], Meta(max_length=MAX_BATCH)]


class FreshBody(Body, frozen=True):
    """A check succeeded. `content` and `command` are SHA-256 digests, in hexadecimal."""

    territory: Name
    key: Name
    content: Name
    command: Name
    globs: Annotated[tuple[Line, ...], Meta(max_length=256)]
    files: SmallInt
    agent: Name = ""
    host: Name = ""
    took_s: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0

    def fresh(self) -> Fresh:
        """As the ledger keeps it."""
        return Fresh(
            territory=self.territory,
            key=self.key,
            content=self.content,
            command=self.command,
            globs=self.globs,
            files=self.files,
            agent=self.agent,
            host=self.host,
            took_s=self.took_s,
        )


class Query(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all query strings; itself an empty one."""


class TerritoryQuery(Query, frozen=True):
    """Only of this territory."""

    territory: Name | None = None


class WhoQuery(Query, frozen=True):
    """Which path; undecodable bytes percent-encoded as they are."""

    territory: Name
    path: Line


class FreshQuery(Query, frozen=True):
    """Of which territory, and under which key."""

    territory: Name
    key: Name | None = None


class WaitQuery(Query, frozen=True):
    """How long to hold the answer back while the claim waits, in seconds."""

    wait_s: Annotated[float, Meta(ge=0.0, le=MAX_WAIT_S)] = 0.0


class ReleaseQuery(Query, frozen=True):
    """The idempotency key of the release (P6), what its gate requires, and what the next holder is told.

    With `again`, a lease that was recalled is claimed again in the same decision.
    """

    key: Name
    require: Require = Require.COMMITTED
    dirty: OnDirty = OnDirty.REFUSE
    note: Line = ""
    commit: Name = ""
    again: bool = False

    def command(self, session: str, lease: str) -> ReleaseLease:
        """The command of this session for this lease."""
        return _release(session, lease, self)


class EventsQuery(Query, frozen=True):
    """Which events: after this number, of a territory or session, of these types (comma-separated)."""

    after: Seq | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = 1_000
    territory: Name | None = None
    session: Name | None = None
    types: Line = ""
    follow: Annotated[int, Meta(ge=0, le=1)] = 0
