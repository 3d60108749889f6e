"""What callers may send about how ground is shared out: bodies and query strings, as in `requests`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from leasefs.core.commands import (
    AskForTime,
    ClaimRegions,
    DelegateLease,
    DowngradeLease,
    Freeze,
    RecallLease,
    Region,
    SetAdmission,
    SetHold,
)
from leasefs.core.intents import OnDirty
from leasefs.core.lease import DEFAULT_TTL_S, Mode
from leasefs.core.records import Admission
from leasefs.service.requests import Body, Line, Name, OnBehalfOf, Query, Seq, Share, SmallInt

MAX_REGIONS = 512

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class RegionBody(Body, frozen=True):
    """One of the leases that are claimed together."""

    globs: tuple[Line, ...]
    note: Line = ""
    share: Share | None = None


class RegionsBody(Body, frozen=True):
    """Ask for several leases at once: all or none, and nothing waits."""

    key: Name
    regions: Annotated[tuple[RegionBody, ...], Meta(max_length=MAX_REGIONS)]
    mode: Mode = Mode.EXCLUSIVE
    ttl_s: float = DEFAULT_TTL_S
    priority: SmallInt = 0

    def command(self, session: str) -> ClaimRegions:
        """The command of this session."""
        regions = tuple(Region(one.globs, one.note, one.share) for one in self.regions)
        return ClaimRegions(session, self.key, regions, self.mode, self.ttl_s, self.priority)


class DowngradeBody(Body, frozen=True):
    """Share what was held alone."""

    key: Name

    def command(self, session: str, lease: str) -> DowngradeLease:
        """The command of this session for this lease."""
        return DowngradeLease(session, self.key, lease)


class DelegateBody(Body, frozen=True):
    """Give `globs` of a lease to agent `to`; `dirty` says what to do if work there is not committed."""

    key: Name
    globs: tuple[Line, ...]
    to: Name
    ttl_s: float | None = None
    note: Line = ""
    dirty: OnDirty = OnDirty.REFUSE

    def command(self, session: str, lease: str) -> DelegateLease:
        """The command of this session for this lease."""
        return DelegateLease(
            session, self.key, lease, self.globs, self.to, self.ttl_s, self.note, self.dirty
        )


class RecallBody(Body, frozen=True):
    """Have the holder yield within so many seconds. `by` says on whose behalf an operator acts."""

    within_s: float = 60.0
    reason: Line = ""
    by: OnBehalfOf = ""

    def command(self, lease: str, *, by: str = "", session: str = "") -> RecallLease:
        """The command of an operator `by`, or else of a session that may hold the parent."""
        return RecallLease(lease, self.within_s, self.reason, by, session)


class MoreTimeBody(Body, frozen=True):
    """Ask for so many more seconds than a recall gives."""

    extra_s: float
    key: Name = ""

    def command(self, session: str, lease: str) -> AskForTime:
        """The command of this session for this lease."""
        return AskForTime(session, lease, self.extra_s, self.key)


class HoldBody(Body, frozen=True):
    """Let a lease be held for so many seconds from now, whatever its territory's admission says."""

    hold_s: float
    by: OnBehalfOf = ""
    key: Name = ""

    def command(self, operator: str, lease: str) -> SetHold:
        """The command of this operator for this lease."""
        return SetHold(operator, lease, self.hold_s, self.key)


class AdmissionBody(Body, frozen=True):
    """All limits of a territory, in place of those before; null is no limit.

    `expected` is the `version` of the limits that these are a change of: if others were set meanwhile, it is refused.
    """

    max_exclusive: Count | None = None
    max_unlanded: Count | None = None
    max_leases: Count | None = None
    max_share: float | None = None
    max_hold_s: float | None = None
    reason: Line = ""
    by: OnBehalfOf = ""
    key: Name = ""
    expected: Seq | None = None

    def command(self, operator: str, territory: str) -> SetAdmission:
        """The command of this operator for this territory."""
        limits = Admission(
            max_exclusive=self.max_exclusive,
            max_unlanded=self.max_unlanded,
            max_leases=self.max_leases,
            max_share=self.max_share,
            max_hold_s=self.max_hold_s,
            reason=self.reason,
            by=operator,
        )
        return SetAdmission(territory, limits, self.key, self.expected)


class FreezeBody(Body, frozen=True):
    """Let nobody write under `globs`, for `ttl_s` seconds or until it is lifted."""

    key: Name
    territory: Name
    globs: tuple[Line, ...]
    reason: Line
    within_s: float = 60.0
    ttl_s: float | None = None
    by: OnBehalfOf = ""

    def command(self, operator: str) -> Freeze:
        """The command of this operator."""
        return Freeze(
            operator,
            self.key,
            self.territory,
            self.globs,
            self.reason,
            self.within_s,
            self.ttl_s,
        )


class OfTerritoryQuery(Query, frozen=True):
    """Which territory."""

    territory: Name


class OperatorQuery(Query, frozen=True):
    """On whose behalf the operator acts, in words, and the idempotency key of the request (P6)."""

    by: OnBehalfOf = ""
    key: Name = ""


class ReopenBody(Body, frozen=True):
    """On whose behalf the operator acts, in words."""

    by: OnBehalfOf = ""
