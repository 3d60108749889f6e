"""Who waits for whom, and that nobody waits for ever: cycles of waiters (P7).

An edge goes from the session of a waiter to the session of each lease or earlier waiter that stands before it.
A lease that ends whatever its holder waits for is no edge: one that is revoked, or recalled for this very
waiter, or recalled by somebody who does not wait.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leasefs.core.globs import globs_of
from leasefs.core.overlap import first_overlap
from leasefs.core.queue import conflicting_leases, lines_before, may_meet, rank
from leasefs.core.records import Claim, Lease, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from leasefs.core.state import State

_Explored = dict[tuple[object, ...], tuple[float, int]]


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
    if not waits(state, session):
        return None
    waiting = _waiting_for(state, session, now_s)
    return _path(state, session, waiting, now_s) if waiting else None


def cycle_by_grant(state: State, lease_id: str, now_s: float) -> list[str] | None:
    """The same, where there was none before this lease was granted: so only who waits for it counts."""
    lease = state.leases[lease_id]
    if not len(state.waiters):
        return None
    waiting = _waiting_behind(state, lease.claim, _held_up_by(lease))
    return _path(state, lease.claim.session, waiting, now_s) if waiting else None


def names_of(state: State, sessions: list[str]) -> list[str]:
    """The agents of these sessions, as a cycle is told."""
    return [
        state.sessions[session].agent if session in state.sessions else session
        for session in sessions
    ]


def _path(state: State, start: str, goals: Container[str], now_s: float) -> list[str] | None:
    came_from = {start: ""}
    for one, other in _reach(state, start, now_s):
        came_from[other] = one
        if other in goals:
            path = [other]
            while path[-1] != start:
                path.append(came_from[path[-1]])
            return path[::-1]
    return None


def reaches(state: State, start: str, wanted: Callable[[str], bool], now_s: float) -> bool:
    """Whether `start`, or a session that it waits for, directly or through others, is `wanted`."""
    return wanted(start) or any(wanted(other) for _, other in _reach(state, start, now_s))


def _reach(state: State, start: str, now_s: float) -> Iterator[tuple[str, str]]:
    """Each session that `start` waits for, directly or through others, after one that waits for it."""
    untried, seen = deque([start]), {start}
    explored: _Explored = {}
    while untried:
        one = untried.popleft()
        for waiter in own_waiters(state, one):
            for other in _stand_before(state, waiter, explored, now_s):
                if other not in seen:
                    seen.add(other)
                    untried.append(other)
                    yield one, other


def _stand_before(state: State, waiter: Claim, explored: _Explored, now_s: float) -> Iterator[str]:
    """The sessions of what stands before this waiter, unless a later one like it was looked at.

    All that stands before an earlier one stands before the later one too, but what that one's session itself has.
    """
    recalls = waiter.recall_within_s is not None and waiter.priority
    like = (waiter.territory, waiter.globs, waiter.mode, recalls)
    place = rank(waiter)
    if explored.get(like, (float("-inf"), 0)) >= place:
        return
    explored[like] = place
    for lease, _ in conflicting_leases(state, waiter):
        if not lease.lapsed(now_s) and not ends_by_itself(lease, waiter):
            yield lease.claim.session
    for line in lines_before(state, waiter):
        for other in line.waiters:
            yield other.session


def may_come_back(state: State, lease: Lease, now_s: float) -> bool:
    """Whether renewing `lease` is safe: giving a lapsed one back must not close a cycle of waiters."""
    if not lease.lapsed(now_s):
        return True
    restored = replace(lease, expires_at_s=now_s + lease.claim.ttl_s)
    trial = replace(state, leases=state.leases.set(lease.id, restored))
    return cycle_through(trial, lease.claim.session, now_s) is None


def waits(state: State, session: str) -> bool:
    """Whether the session waits for anything: one that does not is on no cycle, however much it holds."""
    return len(state.waiters) > 0 and any(True for _ in own_waiters(state, session))


def own_waiters(state: State, session: str) -> Iterator[Claim]:
    """The claims of a session that wait."""
    own = state.of_session.get(session)
    if own is None:
        return
    if len(own) <= len(state.waiters):
        for id_ in own:
            waiter = state.waiters.get(id_)
            if waiter is not None:
                yield waiter
    else:
        yield from (claim for claim in state.waiters.values() if claim.session == session)


def _waiting_for(state: State, session: str, now_s: float) -> set[str]:
    """The sessions that wait for something that this one holds, or waits for before them."""
    found: set[str] = set()
    for id_ in state.of_session.get(session, ()):
        lease = state.leases.get(id_)
        if lease is None:
            found |= _waiting_behind(state, state.waiters[id_], lambda _: True)
        elif not lease.lapsed(now_s):
            found |= _waiting_behind(state, lease.claim, _held_up_by(lease))
    return found


def _held_up_by(lease: Lease) -> Callable[[Claim], bool]:
    return lambda waiter: not ends_by_itself(lease, waiter)


def _waiting_behind(state: State, claim: Claim, held_up: Callable[[Claim], bool]) -> set[str]:
    globs = globs_of(claim.globs)
    found: dict[tuple[str, ...], set[str]] = {}
    is_held = claim.id in state.leases
    for id_ in state.waiting.candidates(claim.territory, globs):
        other = state.waiters[id_]
        if may_meet(other, claim) and (is_held or rank(claim) < rank(other)) and held_up(other):
            found.setdefault(other.globs, set()).add(other.session)
    met = (ones for theirs, ones in found.items() if first_overlap(globs, globs_of(theirs)))
    return set().union(*met)
