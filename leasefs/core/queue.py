"""Who stands before whom (P1, P7).

Two rules make the queue fair and are all there is to it:

* A claim is granted only if no live lease and no waiter that precedes it conflicts with it. So nobody
  is overtaken by a later claim that conflicts with theirs, and a disjoint claim never waits.
* Waiters stand in the order of `rank`: each level of priority is worth `AGE_S` seconds of waiting.
  The order of two waiters never changes once both wait, and a waiter of any priority is overtaken
  only by claims made within `AGE_S` seconds per level of difference: nobody starves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.answers import Blocker
from leasefs.core.globs import globs_of
from leasefs.core.lease import Mode
from leasefs.core.overlap import first_overlap
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


def ancestors(state: State, claim: Claim) -> tuple[str, ...]:
    """The leases that this one was carved out of, nearest first (delegation)."""
    found: tuple[str, ...] = ()
    while claim.parent in state.leases:
        found += (claim.parent,)
        claim = state.leases[claim.parent].claim
    return found


def conflicting_leases(
    state: State, claim: Claim
) -> Iterator[tuple[Lease, tuple[Glob, Glob, bytes]]]:
    """Leases of other sessions, lapsed ones included, that `claim` cannot coexist with.

    A lease and those that it was carved out of share ground, but nobody writes there under both.
    """
    globs = globs_of(claim.globs)
    above = ancestors(state, claim)
    for id_ in sorted(state.held.candidates(claim.territory, globs)):
        lease = state.leases[id_]
        if may_meet(claim, lease.claim) and id_ not in above:
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
    found = [_holder(lease, met, now_s) for lease, met in leases]
    found += [_blocker(other, met, "claim") for other, met in waiting]
    return tuple(found)


def is_blocked(state: State, claim: Claim, now_s: float) -> bool:
    """Whether `blockers` would find any; stops at the first, so that a long queue is settled quickly."""
    if any(not lease.lapsed(now_s) for lease, _ in conflicting_leases(state, claim)):
        return True
    return next(preceding_waiters(state, claim), None) is not None


def _holder(lease: Lease, met: tuple[Glob, Glob, bytes], now_s: float) -> Blocker:
    recall = lease.recall
    return replace(
        _blocker(lease.claim, met, "freeze" if lease.claim.frozen_by else "lease"),
        expires_in_s=lease.expires_at_s - now_s,
        revoked=bool(lease.revoked_by),
        yields_in_s=None if recall is None else max(0.0, recall.deadline_s - now_s),
    )


def _blocker(claim: Claim, met: tuple[Glob, Glob, bytes], kind: str) -> Blocker:
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


def waiters_at(state: State, territory: str, globs: tuple[Glob, ...]) -> list[Claim]:
    """Waiters whose globs could overlap `globs`, in the order of service."""
    ids = state.waiting.candidates(territory, globs)
    return sorted((state.waiters[id_] for id_ in ids), key=rank)
