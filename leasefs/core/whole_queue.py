"""The queue as a whole: what stands before each of many waiters, and how long each may wait.

Asked one by one, a thousand that want one file would each look through all before them. Here those that want the
same ground in the same mode are a line that is looked through once, in the order of service.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasefs.core.estimating import AT_ONCE, Estimate, after_holders, and_then, later
from leasefs.core.globs import globs_of
from leasefs.core.lease import Mode
from leasefs.core.overlap import first_overlap
from leasefs.core.queue import Line, Met, Standing, rank, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.records import Claim
    from leasefs.core.state import State

_Alike = tuple[str, tuple[str, ...], Mode]


@dataclass(slots=True)
class _Line:
    """Waiters for the same ground in the same mode, in their order, and when the last of them so far may end."""

    claims: list[Claim] = field(default_factory=list)
    places: list[tuple[float, int]] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)
    ends: list[tuple[str, Estimate | None]] = field(default_factory=list)
    last_end: Estimate | None = AT_ONCE

    def add(self, claim: Claim) -> None:
        self.claims.append(claim)
        self.places.append(rank(claim))
        self.sessions[claim.session] = self.sessions.get(claim.session, 0) + 1

    def before(self, claim: Claim) -> list[Claim]:
        """Those of other sessions that come before this one."""
        first = self.claims[: bisect_left(self.places, rank(claim))]
        if claim.session in self.sessions:
            return [one for one in first if one.session != claim.session]
        return first

    def end(self, claim: Claim, *, is_own: bool) -> Estimate | None:
        """When the last of those before this one may end, as far as the line was gone through."""
        if self.sessions.get(claim.session, 0) <= is_own:
            return self.last_end
        last: Estimate | None = AT_ONCE
        for session, end in self.ends:
            last = last if session == claim.session else later(last, end)
        return last


def in_order(
    state: State, waiting: list[Claim], now_s: float
) -> Iterator[tuple[Claim, Standing, Estimate | None]]:
    """Each of these waiters, all of some territories and in the order of service, with what it waits for."""
    lines: dict[_Alike, _Line] = {}
    for claim in waiting:
        lines.setdefault(_alike(claim), _Line()).add(claim)
    near: dict[_Alike, list[tuple[Met, _Line]]] = {}
    free: dict[tuple[str, ...], Estimate | None] = {}
    for claim in waiting:
        alike = _alike(claim)
        if alike not in near:
            near[alike] = _meeting(state, claim, lines)
        own, before = lines[alike], list[Line]()
        found = standing(state, claim, now_s, before)
        holders = tuple(lease.id for lease, _ in found.leases)
        if holders not in free:
            free[holders] = after_holders(state, claim, now_s)
        begins = free[holders]
        for met, line in near[alike]:
            first = line.before(claim)
            if first:
                before.append(Line(met, first))
                begins = later(begins, line.end(claim, is_own=line is own))
        end = and_then(state, begins, claim)
        own.ends.append((claim.session, end))
        own.last_end = later(own.last_end, end)
        yield claim, found, begins


def _alike(claim: Claim) -> _Alike:
    return claim.territory, claim.globs, claim.mode


def _meeting(state: State, claim: Claim, lines: dict[_Alike, _Line]) -> list[tuple[Met, _Line]]:
    """The lines that meet a claim, where they do."""
    globs = globs_of(claim.globs)
    ids = state.waiting.candidates(claim.territory, globs)
    found: list[tuple[Met, _Line]] = []
    for alike in sorted({_alike(state.waiters[id_]) for id_ in ids}, key=repr):
        if claim.mode is Mode.SHARED and alike[2] is Mode.SHARED:
            continue
        met = first_overlap(globs, globs_of(alike[1]))
        if met is not None:
            found.append((met, lines[alike]))
    return found
