"""Who waits for whom, and that nobody waits for ever: cycles of waiters (P7).

An edge goes from the session of a waiter to the session of each lease or earlier waiter that stands before it.
A lease that ends whatever its holder waits for is no edge: one that is revoked, or recalled for this very
waiter, or recalled by somebody who does not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.globs import globs_of
from leasefs.core.queue import conflicting_leases, may_meet, preceding_waiters, rank, waiters_at
from leasefs.core.records import Claim, Lease, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from leasefs.core.state import State


def ends_by_itself(lease: Lease, waiter: Claim) -> bool:
    """Whether this lease ends in bounded time whatever its holder waits for, as seen by a waiter."""
    recall = lease.recall
    return bool(lease.revoked_by) or (
        recall is not None and (not recall.claims or waiter.id in recall.claims)
    )


def cycle_through(state: State, session: str, now_s: float) -> list[str] | None:
    """A cycle of sessions that wait for each other and that `session` is part of, or None.

    Each claim needs all of its globs, so one blocker on a cycle is enough to wait for ever.
    """
    if not _waits(state, session) or not _somebody_may_wait_for(state, session):
        return None
    return _path_back(session, lambda one: _waits_for(state, one, now_s))


def _path_back(start: str, next_of: Callable[[str], Iterable[str]]) -> list[str] | None:
    path, untried, seen = [start], [iter(next_of(start))], {start}
    while untried:
        next_ = next(untried[-1], None)
        if next_ is None:
            untried.pop()
            path.pop()
        elif next_ == start:
            return path
        elif next_ not in seen:
            seen.add(next_)
            path.append(next_)
            untried.append(iter(next_of(next_)))
    return None


def may_come_back(state: State, lease: Lease, now_s: float) -> bool:
    """Whether renewing `lease` is safe: giving a lapsed one back must not close a cycle of waiters."""
    if not lease.lapsed(now_s):
        return True
    restored = replace(lease, expires_at_s=now_s + lease.claim.ttl_s)
    trial = replace(state, leases=state.leases.set(lease.id, restored))
    return cycle_through(trial, lease.claim.session, now_s) is None


def waited_for_by(state: State, session: str, wanted: Callable[[str], bool], now_s: float) -> bool:
    """Whether a session that is `wanted` waits for `session`, directly or through others."""
    untried, seen = [session], {session}
    while untried:
        for other in _waiting_for(state, untried.pop(), now_s):
            if other not in seen:
                if wanted(other):
                    return True
                seen.add(other)
                untried.append(other)
    return False


def _waits(state: State, session: str) -> bool:
    """Whether the session waits for anything: one that does not is on no cycle, however much it holds."""
    own = state.of_session.get(session)
    if own is None or len(state.waiters) == 0:
        return False
    if len(own) <= len(state.waiters):
        return any(id_ in state.waiters for id_ in own)
    return any(claim.session == session for claim in state.waiters.values())


def _near_waiters(state: State, session: str) -> Iterator[tuple[Claim, Lease | None, Claim]]:
    """What the session holds or waits for, with each waiter whose ground could overlap it."""
    for id_ in state.of_session.get(session, ()):
        lease = state.leases.get(id_)
        claim = lease.claim if lease else state.waiters[id_]
        for other in waiters_at(state, claim.territory, globs_of(claim.globs)):
            if may_meet(other, claim) and (lease or rank(claim) < rank(other)):
                yield claim, lease, other


def _somebody_may_wait_for(state: State, session: str) -> bool:
    """A cheap no for most sessions, whose ground nobody else asks for."""
    return next(_near_waiters(state, session), None) is not None


def _waiting_for(state: State, session: str, now_s: float) -> set[str]:
    near = {other.session: other for _, _, other in _near_waiters(state, session)}
    return {other for other in near if session in _waits_for(state, other, now_s)}


def _waits_for(state: State, session: str, now_s: float) -> list[str]:
    found: set[str] = set()
    for id_ in state.of_session.get(session, ()):
        waiter = state.waiters.get(id_)
        if waiter is not None:
            found |= {
                lease.claim.session
                for lease, _ in conflicting_leases(state, waiter)
                if not lease.lapsed(now_s) and not ends_by_itself(lease, waiter)
            }
            found |= {other.session for other, _ in preceding_waiters(state, waiter)}
    return sorted(found)
