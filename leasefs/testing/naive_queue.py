"""The rules of the queue in their own words, plainly and slowly: the judge of the real ones in random histories.

It reads leases and waiters out of a state and nothing else of it: no index, no automaton, no count. Overlap is tried
over a few paths. `Sight` is what can be told of one moment.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from leasefs.core.lease import Mode
from leasefs.testing.naive_globs import naive_match

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.core.ledger import State
    from leasefs.core.records import Claim, Lease

GLOBS = ("x/1", "x/2", "x/*", "y/1", "y/**", "z", "**", "*/1", "x/[12]", "**/2")
# Wherever two of them overlap, one of these shows it.
UNIVERSE = [b"x/1", b"x/2", b"x/3", b"y/1", b"y/2", b"y/d/2", b"z", b"w/1", b"w/2"]
MATCHED = {glob: frozenset(path for path in UNIVERSE if naive_match(glob, path)) for glob in GLOBS}
LEVEL_S = 300.0


def ground(globs: Iterable[str]) -> frozenset[bytes]:
    """The paths that globs match."""
    return frozenset().union(*(MATCHED[glob] for glob in globs))


def clash(one: Claim, other: Claim) -> bool:
    """Whether two claims exclude each other (P1)."""
    both_shared = one.mode is Mode.SHARED and other.mode is Mode.SHARED
    return (
        one.session != other.session
        and one.territory == other.territory
        and not both_shared
        and bool(ground(one.globs) & ground(other.globs))
    )


def order(claim: Claim) -> tuple[float, int]:
    """By arrival, a level of priority being worth five minutes of waiting (P7)."""
    return (claim.claimed_at_s - LEVEL_S * claim.priority, claim.claimed_seq)


def goes_by_itself(lease: Lease, waiter: Claim) -> bool:
    """Whether a lease ends soon, whatever its holder does: revoked, or recalled for good, or for this waiter."""
    if lease.revoked_by:
        return True
    return lease.recall is not None and (
        not lease.recall.claims or waiter.id in lease.recall.claims
    )


class Sight:
    """What the rules say of a moment. `extra` claims wait as well, `more` leases are held as well."""

    def __init__(
        self,
        state: State,
        now_s: float,
        extra: Iterable[Claim] = (),
        more: Iterable[Lease] = (),
    ) -> None:
        self.state = state
        self.now_s = now_s
        self.leases = {lease.id: lease for lease in (*state.leases.values(), *more)}
        self.waiters = {claim.id: claim for claim in (*state.waiters.values(), *extra)}

    def ancestors(self, claim: Claim) -> list[str]:
        """What the claim was carved out of."""
        found = []
        while claim.parent in self.leases:
            found.append(claim.parent)
            claim = self.leases[claim.parent].claim
        return found

    def are_kin(self, one: Claim, other: Claim) -> bool:
        """Whether one was carved out of the other."""
        return one.id in self.ancestors(other) or other.id in self.ancestors(one)

    def holders_before(self, claim: Claim) -> list[Lease]:
        """The leases that stand before a claim."""
        above = self.ancestors(claim)
        return [
            lease
            for lease in self.leases.values()
            if clash(claim, lease.claim) and not lease.lapsed(self.now_s) and lease.id not in above
        ]

    def waiters_before(self, claim: Claim) -> list[Claim]:
        """The waiters that stand before a claim."""
        return [
            other
            for other in self.waiters.values()
            if other.id != claim.id and clash(claim, other) and order(other) < order(claim)
        ]

    def has_something_before(self, claim: Claim) -> bool:
        """Whether a holder or an earlier waiter stands before a claim."""
        return bool(self.holders_before(claim) or self.waiters_before(claim))

    def awaits_a_look(self, claim: Claim) -> bool:
        """Whether a lease in its way has lapsed that no timer has looked at yet."""
        return any(
            clash(claim, lease.claim) and lease.lapsed(self.now_s) and not lease.lapse_recorded
            for lease in self.leases.values()
        )

    def has_lapsed_unseen(self, territory: str) -> bool:
        """Whether a lease that counts has lapsed and no timer has looked at it yet."""
        return any(
            counts(lease) and lease.lapsed(self.now_s) and lease.claim.territory == territory
            for lease in self.leases.values()
        )

    def waited_for(self) -> dict[str, set[str]]:
        """Which sessions each waiting session waits for, admission aside."""
        edges: dict[str, set[str]] = {}
        for waiter in self.waiters.values():
            to = edges.setdefault(waiter.session, set())
            to |= {
                lease.claim.session
                for lease in self.holders_before(waiter)
                if not goes_by_itself(lease, waiter)
            }
            to |= {other.session for other in self.waiters_before(waiter)}
        return edges

    def stuck(self, held_back: Iterable[str] = ()) -> set[str]:
        """Sessions that wait for ever if each ends what it holds once nothing of it waits any more.

        `held_back` sessions are taken to wait for ever for admission.
        """
        edges = self.waited_for()
        left = {session: to & set(edges) for session, to in edges.items()}
        for_ever = set(held_back)
        while True:
            done = {session for session, to in left.items() if not to and session not in for_ever}
            if not done:
                return set(left)
            left = {session: to - done for session, to in left.items() if session not in done}

    def only_admission_before(self, territory: str) -> list[Claim]:
        """Waiters that no holder and no earlier waiter stops, in order of service."""
        found = [
            claim
            for claim in self.waiters.values()
            if claim.territory == territory and not self.has_something_before(claim)
        ]
        return sorted(found, key=order)

    def inside(self, territory: str) -> set[str]:
        """Sessions whose leases, or whose agent's work that has not landed, fill a territory."""
        agents = {work.agent for work in self.state.uncommitted.works.get(territory, {}).values()}
        return {
            lease.claim.session
            for lease in self.leases.values()
            if counts(lease) and not lease.lapsed(self.now_s) and lease.claim.territory == territory
        } | {
            session.id
            for session in self.state.sessions.values()
            if session.territory == territory and session.agent in agents
        }

    def is_full(self, territory: str) -> bool:
        """Whether a territory takes on no more exclusive leases."""
        limits = self.state.admission.get(territory)
        if limits is None:
            return False
        live = sum(
            counts(lease) and lease.claim.territory == territory for lease in self.leases.values()
        )
        open_ = len(self.state.uncommitted.works.get(territory, {}))
        return (limits.max_exclusive is not None and live >= limits.max_exclusive) or (
            limits.max_unlanded is not None and open_ >= limits.max_unlanded
        )

    def goes_above_limits(self, claim: Claim) -> bool:
        """Whether a claim must be let in though its territory is full: else those inside would wait for ever."""
        inside = self.inside(claim.territory)
        waiting = {one.session for one in self.only_admission_before(claim.territory)}
        if inside - self.stuck(waiting | {claim.session}):
            return False
        edges, reached, untried = self.waited_for(), set(inside), list(inside)
        while untried:
            for other in edges.get(untried.pop(), set()) - reached:
                reached.add(other)
                untried.append(other)
        return claim.session in reached


def counts(lease: Lease) -> bool:
    """Whether a lease is one of the live exclusive ones that a limit is about."""
    return lease.claim.mode is Mode.EXCLUSIVE and not lease.lapse_recorded


def overlapping_pairs(sight: Sight) -> Iterator[tuple[Claim, Claim]]:
    """Leases of different sessions that exclude each other and yet are both held; kin aside."""
    claims = [lease.claim for lease in sight.leases.values()]
    for one, other in itertools.combinations(claims, 2):
        if clash(one, other) and not sight.are_kin(one, other):
            yield one, other


def indexes_of(state: State) -> dict[str, object]:
    """What a state counts and lists beside its leases, from scratch."""
    children: dict[str, set[str]] = {}
    owned: dict[str, set[str]] = {}
    for claim in (*(lease.claim for lease in state.leases.values()), *state.waiters.values()):
        owned.setdefault(claim.session, set()).add(claim.id)
        if claim.parent:
            children.setdefault(claim.parent, set()).add(claim.id)
    return {
        "exclusive": dict(
            Counter(lease.claim.territory for lease in state.leases.values() if counts(lease))
        ),
        "recalled": {id_ for id_, lease in state.leases.items() if lease.recall is not None},
        "children": children,
        "of_session": owned,
    }


def indexes_in(state: State) -> dict[str, object]:
    """The same, as the state has it."""
    return {
        "exclusive": dict(state.exclusive),
        "recalled": set(state.recalled),
        "children": {parent: set(ids) for parent, ids in state.children.items()},
        "of_session": {session: set(ids) for session, ids in state.of_session.items()},
    }
