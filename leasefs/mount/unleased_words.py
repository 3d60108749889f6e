"""What a write is told that got no ground by the mount's unleased policy (P10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.errors import ClaimConflict, Deadlock, LeasefsError
from leasefs.core.paths import shown
from leasefs.core.policy import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REASONS: tuple[tuple[type[LeasefsError], Reason], ...] = (
    (ClaimConflict, Reason.HELD),
    (Deadlock, Reason.DEADLOCK),
    (LeasefsError, Reason.UNCLAIMED),
)


def refused_by(refused: Refused, error: LeasefsError) -> Refused:
    """The refusal of a write for which the ledger granted nothing."""
    reason = next(reason for kind, reason in _REASONS if isinstance(error, kind))
    return Refused(reason, refused.op, refused.path, detail=error.message)


def timed_out(refused: Refused, waited_s: float, blockers: Sequence[Mapping[str, Any]]) -> Refused:
    """The refusal of a write that waited for as long as its mount waits; who was in the way, first of all holders."""
    path = shown(refused.path) or "."
    if blockers:
        whom = f"for {_in_the_way(blockers[0])}"
        more = f", and {len(blockers) - 1} more" if len(blockers) > 1 else ""
        detail = f"waited {waited_s:.0f} s {whom}{more}; try again, or see: leasefs who {path}"
    else:
        detail = f"waited {waited_s:.0f} s for a lease over it; claim it: leasefs claim {path}"
    return Refused(Reason.WAITED, refused.op, refused.path, detail=detail)


def _in_the_way(blocker: Mapping[str, Any]) -> str:
    match blocker["kind"]:
        case "admission":
            return f"admission: {blocker['reason']}"
        case "freeze":
            return f"{blocker['glob']}, frozen by {blocker['agent']}: {blocker['reason']}"
        case "claim":
            return f"{blocker['agent']} ({blocker['harness']}), who waits for {blocker['glob']} as {blocker['id']}"
    return (
        f"{blocker['agent']} ({blocker['harness']}), who holds {blocker['glob']} as {blocker['id']}"
    )
