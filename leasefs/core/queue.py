"""Who stands before whom (P1, P7).

Two rules make the queue fair and are all there is to it:

* A claim is granted only if no live lease and no waiter that precedes it conflicts with it. So nobody
  is overtaken by a later claim that conflicts with theirs, and a disjoint claim never waits.
* Waiters stand in the order of `rank`: each level of priority is worth `AGE_S` seconds of waiting.
  The order of two waiters never changes once both wait, and a waiter of any priority is overtaken
  only by claims made within `AGE_S` seconds per level of difference: nobody starves.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from leasefs.core.answers import Blocker
from leasefs.core.globs import globs_of
from leasefs.core.lease import Mode
from leasefs.core.overlap import overlap
from leasefs.core.paths import text
from leasefs.core.records import Claim, Lease, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.globs import Glob
    from leasefs.core.state import State

AGE_S = 300.0


def rank(claim: Claim) -> tuple[float, int]:
    """The place of a waiter in the order of service; smaller comes first."""
    return (claim.claimed_at_s - claim.priority * AGE_S, claim.claimed_seq)


def may_meet(one: Claim, other: Claim) -> bool:
    """Whether two claims exclude each other wherever they overlap (P1)."""
    return one.session != other.session and not (
        one.mode is Mode.SHARED and other.mode is Mode.SHARED
    )


def first_overlap(
    ours: tuple[Glob, ...], theirs: tuple[Glob, ...]
) -> tuple[Glob, Glob, bytes] | None:
    """The first pair of globs that meet, and a path that both match."""
    for our in ours:
        for their in theirs:
            witness = overlap(our, their)
            if witness is not None:
                return our, their, witness
    return None


def conflicting_leases(
    state: State, claim: Claim
) -> Iterator[tuple[Lease, tuple[Glob, Glob, bytes]]]:
    """Leases of other sessions, lapsed ones included, that `claim` cannot coexist with."""
    globs = globs_of(claim.globs)
    for id_ in sorted(state.held.candidates(claim.territory, globs)):
        lease = state.leases[id_]
        if may_meet(claim, lease.claim):
            met = first_overlap(globs, globs_of(lease.claim.globs))
            if met:
                yield lease, met


def preceding_waiters(
    state: State, claim: Claim
) -> Iterator[tuple[Claim, tuple[Glob, Glob, bytes]]]:
    """Waiters of other sessions that conflict with `claim` and come first."""
    globs = globs_of(claim.globs)
    for id_ in sorted(state.waiting.candidates(claim.territory, globs)):
        other = state.waiters[id_]
        if other.id != claim.id and may_meet(claim, other) and rank(other) < rank(claim):
            met = first_overlap(globs, globs_of(other.globs))
            if met:
                yield other, met


def blockers(state: State, claim: Claim, now_s: float) -> tuple[Blocker, ...]:
    """Everything that `claim` must wait for now: leases by grant, then waiters in their order."""
    leases = [
        (lease, met) for lease, met in conflicting_leases(state, claim) if not lease.lapsed(now_s)
    ]
    leases.sort(key=lambda item: item[0].token)
    waiting = sorted(preceding_waiters(state, claim), key=lambda item: rank(item[0]))
    found = [
        _blocker(lease.claim, met, "lease", lease.expires_at_s - now_s, bool(lease.revoked_by))
        for lease, met in leases
    ]
    found += [_blocker(other, met, "claim", None, revoked=False) for other, met in waiting]
    return tuple(found)


def is_blocked(state: State, claim: Claim, now_s: float) -> bool:
    """Whether `blockers` would find any; stops at the first, so that a long queue is settled quickly."""
    if any(not lease.lapsed(now_s) for lease, _ in conflicting_leases(state, claim)):
        return True
    return next(preceding_waiters(state, claim), None) is not None


def _blocker(
    claim: Claim,
    met: tuple[Glob, Glob, bytes],
    kind: str,
    expires_in_s: float | None,
    revoked: bool,
) -> Blocker:
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
        expires_in_s=expires_in_s,
        revoked=revoked,
    )


def waiters_at(state: State, territory: str, globs: tuple[Glob, ...]) -> list[Claim]:
    """Waiters whose globs could overlap `globs`, in the order of service."""
    ids = state.waiting.candidates(territory, globs)
    return sorted((state.waiters[id_] for id_ in ids), key=rank)


def cycle_through(state: State, session: str, now_s: float) -> list[str] | None:
    """A cycle of sessions that wait for each other and that `session` is part of, or None.

    Each claim needs all of its globs, so one blocker on a cycle is enough to wait for ever.
    """
    if not _waits(state, session) or not _somebody_may_wait_for(state, session):
        return None
    path = [session]
    untried = [iter(_waits_for(state, session, now_s))]
    seen = {session}
    while untried:
        next_ = next(untried[-1], None)
        if next_ is None:
            untried.pop()
            path.pop()
        elif next_ == session:
            return path
        elif next_ not in seen:
            seen.add(next_)
            path.append(next_)
            untried.append(iter(_waits_for(state, next_, now_s)))
    return None


def may_come_back(state: State, lease: Lease, now_s: float) -> bool:
    """Whether renewing `lease` is safe: giving a lapsed one back must not close a cycle of waiters."""
    if not lease.lapsed(now_s):
        return True
    restored = replace(lease, expires_at_s=now_s + lease.claim.ttl_s)
    trial = replace(state, leases=state.leases.set(lease.id, restored))
    return cycle_through(trial, lease.claim.session, now_s) is None


def _waits(state: State, session: str) -> bool:
    """Whether the session waits for anything: one that does not is on no cycle, however much it holds."""
    own = state.of_session.get(session)
    if own is None or len(state.waiters) == 0:
        return False
    if len(own) <= len(state.waiters):
        return any(id_ in state.waiters for id_ in own)
    return any(claim.session == session for claim in state.waiters.values())


def _somebody_may_wait_for(state: State, session: str) -> bool:
    """A cheap no for most sessions, whose ground nobody else asks for."""
    for id_ in state.of_session.get(session, ()):
        lease = state.leases.get(id_)
        claim = lease.claim if lease else state.waiters[id_]
        for other in waiters_at(state, claim.territory, globs_of(claim.globs)):
            if may_meet(other, claim) and (lease or rank(claim) < rank(other)):
                return True
    return False


def _waits_for(state: State, session: str, now_s: float) -> list[str]:
    ids = [id_ for id_ in state.of_session.get(session, ()) if id_ in state.waiters]
    return sorted(
        {blocker.session for id_ in ids for blocker in blockers(state, state.waiters[id_], now_s)}
    )


def estimate_s(
    state: State, claim: Claim, found: tuple[Blocker, ...], now_s: float
) -> float | None:
    """How long `claim` may wait, in seconds, from past hold times; None when there are none."""
    holds = state.holds.get(claim.territory, ())
    if not holds:
        return None
    typical_s = median(holds)
    remaining_s = [
        max(0.0, typical_s - (now_s - state.leases[blocker.id].granted_at_s))
        for blocker in found
        if blocker.kind == "lease"
    ]
    ahead = sum(blocker.kind == "claim" for blocker in found)
    return max(remaining_s, default=0.0) + ahead * typical_s
