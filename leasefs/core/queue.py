"""Who stands before whom (P1, P7).

Two rules make the queue fair and are all there is to it:

* A claim is granted only if no live lease and no waiter that precedes it conflicts with it. So nobody
  is overtaken by a later claim that conflicts with theirs, and a disjoint claim never waits.
* Waiters stand in the order of `rank`: each level of priority is worth `AGE_S` seconds of waiting.
  The order of two waiters never changes once both wait.

So nobody starves, and the bound is this: a claim of priority p is overtaken by one of priority q only if that was
made less than (q - p) * AGE_S seconds after it. Once a normal claim has waited for 100 * AGE_S (eight hours and 20
minutes), a claim of the lowest priority for twice that, no claim made later comes before it; a freeze (1,000) may
until three and a half days. Waiting ages a claim and holding does not make it younger: what comes back after a recall
has the place of its first request, but behind those that it was recalled for.

Two ways around the order are meant: a part that a holder delegates was never free, and a claim that those inside a
full territory wait for is let in above its limits (`leasefs.core.admission`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.answers import BLOCKERS_SHOWN, Blocker
from leasefs.core.globs import Glob, globs_of
from leasefs.core.lease import Mode
from leasefs.core.overlap import first_overlap
from leasefs.core.paths import text
from leasefs.core.records import Claim, Lease, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.core.state import State

AGE_S = 300.0

Met = tuple[Glob, Glob, bytes]
"""Where two claims meet: a glob of one, a glob of the other, and a path that both match."""


def rank(claim: Claim) -> tuple[float, int]:
    """The place of a waiter in the order of service; smaller comes first."""
    return (claim.claimed_at_s - claim.priority * AGE_S, claim.claimed_seq)


def may_meet(one: Claim, other: Claim) -> bool:
    """Whether two claims exclude each other wherever they overlap (P1)."""
    return one.session != other.session and not (
        one.mode is Mode.SHARED and other.mode is Mode.SHARED
    )


def ancestors(state: State, claim: Claim) -> tuple[str, ...]:
    """The leases that this one was carved out of, nearest first (delegation)."""
    found: tuple[str, ...] = ()
    while claim.parent in state.leases:
        found += (claim.parent,)
        claim = state.leases[claim.parent].claim
    return found


def conflicting_leases(state: State, claim: Claim) -> Iterator[tuple[Lease, Met]]:
    """Leases of other sessions, lapsed ones included, that `claim` cannot coexist with.

    A lease and those that it was carved out of share ground, but nobody writes there under both.
    """
    globs = globs_of(claim.globs)
    near = state.held.candidates(claim.territory, globs)
    if not near:
        return
    above = ancestors(state, claim) if claim.parent else ()
    for id_ in sorted(near):
        lease = state.leases[id_]
        if may_meet(claim, lease.claim) and id_ not in above:
            met = first_overlap(globs, globs_of(lease.claim.globs))
            if met:
                yield lease, met


class Line(NamedTuple):
    """Waiters that want the same ground, in the order of service, and where they meet a claim."""

    met: Met
    waiters: list[Claim]


def lines_before(state: State, claim: Claim) -> list[Line]:
    """The waiters of other sessions that conflict with `claim` and come first, by the ground that they want.

    A thousand that want one file meet a claim in the same way, so that is found out once.
    """
    globs = globs_of(claim.globs)
    near = state.waiting.candidates(claim.territory, globs)
    if not near:
        return []
    place, session, waiters = rank(claim), claim.session, state.waiters
    only_exclusive = claim.mode is Mode.SHARED
    found: dict[tuple[str, ...], list[tuple[tuple[float, int], Claim]]] = {}
    for id_ in near:
        other = waiters[id_]
        if (
            other.session != session
            and not (only_exclusive and other.mode is Mode.SHARED)
            and (its_place := rank(other)) < place
        ):
            found.setdefault(other.globs, []).append((its_place, other))
    met = ((first_overlap(globs, globs_of(theirs)), ones) for theirs, ones in found.items())
    return [Line(where, [one for _, one in sorted(ones)]) for where, ones in met if where]


def preceding_waiters(state: State, claim: Claim) -> Iterator[Claim]:
    """Waiters of other sessions that conflict with `claim` and come first, in no order."""
    for line in lines_before(state, claim):
        yield from line.waiters


@dataclass(slots=True)
class Standing:
    """What a claim must wait for: leases by grant, and waiters. `lapsed` leases are in its way, but do not stop it."""

    leases: list[tuple[Lease, Met]]
    lines: list[Line]
    lapsed: list[Lease] = field(default_factory=list)

    @property
    def waiters(self) -> int:
        """How many claims must be served before."""
        return sum(len(line.waiters) for line in self.lines)

    def __len__(self) -> int:
        return len(self.leases) + self.waiters

    def __bool__(self) -> bool:
        return bool(self.leases or self.lines)

    def at(self, glob: Glob) -> Standing:
        """Those of them that one glob of the claim meets."""
        return Standing(
            [item for item in self.leases if _meets(glob, item[0].claim)],
            [line for line in self.lines if _meets(glob, line.waiters[0])],
        )

    def ids(self, most: int = BLOCKERS_SHOWN) -> tuple[str, ...]:
        """The ids of the first of them, in the order of `told`."""
        found = [lease.id for lease, _ in self.leases[:most]]
        first = (one for line in self.lines for one in line.waiters[:most])
        return (*found, *(one.id for one in nsmallest(most - len(found), first, key=rank)))

    def sessions(self) -> tuple[str, ...]:
        """Whose they are: of all holders, each of whom can make way, and of the first earlier waiters."""
        holders = [lease.claim.session for lease, _ in self.leases]
        first = (one for line in self.lines for one in line.waiters[:BLOCKERS_SHOWN])
        waiters = [one.session for one in nsmallest(BLOCKERS_SHOWN, first, key=rank)]
        return tuple(dict.fromkeys((*holders, *waiters)))

    def told(self, now_s: float, most: int = BLOCKERS_SHOWN) -> tuple[Blocker, ...]:
        """The first of them: holders, then earlier waiters in their order."""
        found = [_holder(lease, met, now_s) for lease, met in self.leases[:most]]
        first = [(rank(one), one, line.met) for line in self.lines for one in line.waiters[:most]]
        found += [_blocker(one, met, "claim") for _, one, met in sorted(first)]
        return tuple(found[:most])


def _meets(glob: Glob, claim: Claim) -> bool:
    return first_overlap((glob,), globs_of(claim.globs)) is not None


def standing(state: State, claim: Claim, now_s: float, lines: list[Line] | None = None) -> Standing:
    """Everything that `claim` must wait for now, admission aside; `lines` of waiters, if they are known."""
    found = list(conflicting_leases(state, claim))
    live = [item for item in found if not item[0].lapsed(now_s)]
    live.sort(key=lambda item: item[0].token)
    lapsed = [lease for lease, _ in found if lease.lapsed(now_s)]
    before = lines_before(state, claim) if lines is None else lines
    return Standing(live, before, lapsed)


def is_blocked(state: State, claim: Claim, now_s: float) -> bool:
    """Whether `standing` would find any."""
    if any(not lease.lapsed(now_s) for lease, _ in conflicting_leases(state, claim)):
        return True
    return bool(lines_before(state, claim))


def _holder(lease: Lease, met: Met, now_s: float) -> Blocker:
    recall = lease.recall
    return replace(
        _blocker(lease.claim, met, "freeze" if lease.claim.frozen_by else "lease"),
        expires_in_s=lease.expires_at_s - now_s,
        revoked=bool(lease.revoked_by),
        yields_in_s=None if recall is None else max(0.0, recall.deadline_s - now_s),
    )


def _blocker(claim: Claim, met: Met, kind: str) -> Blocker:
    our, their, witness = met
    return Blocker(
        id=claim.id,
        kind=kind,
        session=claim.session,
        agent=claim.agent,
        harness=claim.harness,
        mode=claim.mode,
        glob=their.text,
        wanted=our.text,
        witness=text(witness),
        expires_in_s=None,
        reason=claim.note if claim.frozen_by else "",
    )


def waiters_at(state: State, territory: str, globs: Iterable[Glob]) -> list[Claim]:
    """Waiters whose globs could overlap `globs`, in the order of service."""
    ids = state.waiting.candidates(territory, globs)
    return sorted((state.waiters[id_] for id_ in ids), key=rank)
