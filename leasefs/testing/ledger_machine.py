"""A state machine of the whole ledger for random histories: time, sessions, and what must always hold.

What each event must respect is in `ledger_checks`, rules by topic in `ledger_claims`, `ledger_scheduling` and
`ledger_operators`. The judge is `naive_queue`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from leasefs.core.commands import (
    AnyCommand,
    EndSession,
    OpenSession,
    StartLedger,
    Tick,
)
from leasefs.core.lease import Mode, trust_margin_s
from leasefs.core.ledger import Decision, State, apply, decide
from leasefs.core.renewal import lease_due_at_s
from leasefs.service import snapshot
from leasefs.testing.ledger_checks import EventChecks
from leasefs.testing.naive_queue import (
    Sight,
    clash,
    ground,
    indexes_in,
    indexes_of,
    overlapping_pairs,
)

if TYPE_CHECKING:
    from leasefs.core import events as ev
    from leasefs.core.answers import LeaseAnswer
    from leasefs.core.records import Claim, Lease

AGENTS = (("a", "t"), ("b", "t"), ("c", "t"), ("d", "t"), ("e", "u"), ("f", "u"))


class LedgerMachine(RuleBasedStateMachine, EventChecks):
    """True time is `t_s`; the ledger's clock may stand still but never runs ahead of it."""

    @initialize()
    def start(self) -> None:
        """Begin with everybody's session open."""
        self.t_s = 100.0
        self.lag_s = 0.0
        self.state = State()
        self.log: list[ev.Recorded] = []
        self.counter = itertools.count()
        self.tokens_seen = 0
        self.sessions: dict[str, str] = {}
        # Until when a session writes or reads under a lease, and ground of it that it gave away.
        self.trust_s: dict[tuple[str, str], tuple[float, Claim]] = {}
        self.carved: dict[tuple[str, str], frozenset[bytes]] = {}
        # When each claim was first asked for, by id; what comes back has the time of the first.
        self.arrived_s: dict[str, float] = {}
        self.run_command(StartLedger("s", "boot"))
        for agent, territory in AGENTS:
            self.open(agent, territory, replace=False)

    # ---- driving -------------------------------------------------------------------------------

    def run_command(self, command: AnyCommand) -> Decision:
        """Decide, and look at each event before it is applied."""
        before = self.state
        decision = decide(before, command, self.t_s - self.lag_s)
        state = before
        for recorded in decision.events:
            self.check_event(state, recorded, command)
            state = apply(state, recorded)
        assert state == decision.state, "P11: the events are all there is to a decision"
        self.check_come_backs(before, decision, command)
        self.state = decision.state
        self.log += decision.events
        return decision

    def key(self) -> str:
        """A new idempotency key."""
        return f"k{next(self.counter)}"

    def twice(self, command: AnyCommand) -> Decision:
        """Run it, and again if it was carried out: the second time nothing happens (P6)."""
        decision = self.run_command(command)
        if decision.error is None:
            again = self.run_command(command)
            assert not again.events, f"P6: sent twice, it acted twice: {again.events}"
            assert again.error is None
        return decision

    def tick(self) -> None:
        """Look at what is due, as a server's timers do."""
        due = [
            id_ for id_ in self.state.leases if (lease_due_at_s(self.state, id_) or 0.0) <= self.t_s
        ]
        self.run_command(Tick(leases=tuple(due), sessions=tuple(self.state.sessions)))
        now_s = max(self.state.at_s, self.t_s - self.lag_s)
        for id_ in due:
            lease = self.state.leases.get(id_)
            if lease is None or lease.revoked_by or lease.lapsed(now_s):
                continue
            asked = lease.recall
            assert asked is None or now_s < asked.deadline_s, "P7: who did not yield is revoked"
            assert asked or not self.is_over_cap(lease, now_s), "P7: a cap on holds recalls"

    def is_over_cap(self, lease: Lease, now_s: float) -> bool:
        """Whether a lease is held longer than its territory, or an operator, lets it."""
        limits = self.state.admission.get(lease.claim.territory)
        if lease.hold_until_s is not None:
            return now_s >= lease.hold_until_s
        if limits is None or limits.max_hold_s is None or lease.claim.frozen_by:
            return False
        return now_s >= lease.granted_at_s + limits.max_hold_s

    def pick(self, data: st.DataObject, options: list[str]) -> str:
        """One of them."""
        return data.draw(st.sampled_from(sorted(options)))

    def trust(self, session: str, answer: LeaseAnswer, sent_s: float) -> None:
        """A holder has heard that it holds."""
        if answer.state == "granted" and not self.is_given_up(answer.lease):
            claim = self.state.leases[answer.lease].claim
            until_s = sent_s + answer.ttl_s - trust_margin_s(answer.ttl_s)
            self.trust_s[session, answer.lease] = (until_s, claim)

    def is_given_up(self, lease: str) -> bool:
        """Whether an upgrade waits to replace a lease: then its holder counts on it no more."""
        return any(waiter.replaces == lease for waiter in self.state.waiters.values())

    def held(self, session: str) -> list[str]:
        """What a session holds."""
        return [id_ for id_, lease in self.state.leases.items() if lease.claim.session == session]

    # ---- what may happen -----------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.0, 3.0, 8.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        """And deadlines are met."""
        self.t_s += seconds
        self.tick()

    @rule(
        data=st.data(),
        what=st.sampled_from(["restart", "unseen", "stutter", "sleep", "end", "replace"]),
    )
    def trouble(self, data: st.DataObject, what: str) -> None:
        """The rare things, together one rule, so that most steps are claims and heartbeats."""
        if what == "sleep":
            self.time_passes(data.draw(st.sampled_from([95.0, 2000.0])))
        elif what == "stutter":
            self.lag_s += data.draw(st.sampled_from([0.5, 5.0]))
        elif what == "restart":
            self.restart()
        elif what == "unseen":
            self.t_s += data.draw(st.sampled_from([1.0, 12.0]))  # no timer has looked yet
        elif what == "end":
            self.end(self.pick(data, list(self.sessions)))
        else:
            agent, territory = data.draw(st.sampled_from(AGENTS))
            self.open(agent, territory, replace=True)
        for agent, territory in AGENTS:
            if data.draw(st.booleans()) and (territory, agent) not in self.state.by_agent:
                self.open(agent, territory, replace=False)

    def restart(self) -> None:
        """A new server reads the log, and another one a snapshot: both know the same."""
        state = State()
        for recorded in self.log:
            state = apply(state, recorded)
        assert state == self.state, "P11: replay gives the same state"
        saved = snapshot.written(snapshot.Saved(state, None))
        assert snapshot.read(saved).state == state, "P11: a snapshot keeps all of it"
        self.run_command(StartLedger("s", "boot"))

    def open(self, agent: str, territory: str, *, replace: bool) -> None:
        """Open a session for an agent, if it may have one more."""
        session = f"session-{agent}-{next(self.counter)}"
        command = OpenSession(
            session, "0" * 64, agent, "h", territory, "mount", "host", 1, replace=replace
        )
        decision = self.run_command(command)
        if decision.error is None:
            self.sessions[session] = agent
            assert not self.run_command(command).events, "P6: opened twice is opened once"
            for old in [one for one, name in self.sessions.items() if name == agent]:
                if old != session and next(self.counter) % 4:  # some go on asking, not knowing
                    del self.sessions[old]

    def end(self, session: str) -> None:
        """A session ends by its own wish."""
        for key in [key for key in self.trust_s if key[0] == session]:
            del self.trust_s[key]  # it stops writing before it says so
        self.run_command(EndSession(session))
        if len(self.sessions) > 1:
            del self.sessions[session]

    # ---- what must always hold -----------------------------------------------------------------

    def has_begun(self) -> bool:
        """Invariants are looked at before the first step as well."""
        return hasattr(self, "arrived_s")

    @invariant()
    def p1_exclusion(self) -> None:
        """No two overlap, but what was carved out of each other."""
        if self.has_begun():
            found = list(overlapping_pairs(Sight(self.state, self.state.at_s)))
            assert not found, f"P1: both are held: {found}"

    @invariant()
    def p3_nobody_else_writes(self) -> None:
        """What holders still trust never overlaps, less what they gave away."""
        if not self.has_begun():
            return
        trusted = [
            (claim, self.ground_left(key, claim))
            for key, (until_s, claim) in self.trust_s.items()
            if self.t_s < until_s
        ]
        for (one, ones), (other, others) in itertools.combinations(trusted, 2):
            assert not (clash(one, other) and ones & others), f"P3: {one} and {other} are trusted"

    def ground_left(self, key: tuple[str, str], claim: Claim) -> frozenset[bytes]:
        """What the session writes under a lease: not what it gave to others, whatever lease of it covers that."""
        given = [paths for (session, _), paths in self.carved.items() if session == key[0]]
        return ground(claim.globs) - frozenset().union(*given)

    @invariant()
    def p7_no_waiter_is_lost(self) -> None:
        """Something stands before each waiter: a holder, an earlier waiter, or admission."""
        if not self.has_begun():
            return
        sight = Sight(self.state, self.state.at_s)
        for waiter in self.state.waiters.values():
            if not (sight.has_something_before(waiter) or sight.awaits_a_look(waiter)):
                full = sight.is_full(waiter.territory) and waiter.mode is Mode.EXCLUSIVE
                assert full, f"P7: nothing stands before {waiter}, yet it waits"

    @invariant()
    def p7_nobody_waits_for_ever(self) -> None:
        """No cycle was let in, and admission holds nobody back whom those inside wait for in vain."""
        if not self.has_begun():
            return
        sight = Sight(self.state, self.state.at_s)
        assert not sight.stuck(), f"P7: a cycle of waiters was let in: {sight.waited_for()}"
        for territory in self.state.admission:
            if sight.is_full(territory):
                for waiter in sight.only_admission_before(territory):
                    stuck = waiter.mode is Mode.EXCLUSIVE and sight.goes_above_limits(waiter)
                    stuck = stuck and not sight.awaits_a_look(waiter)
                    assert not stuck, f"P7: no place will ever come free for {waiter}"

    @invariant()
    def p7_recalls_are_what_was_asked(self) -> None:
        """Each waiter that recalls has asked for all that it may, and what nobody asks for is not recalled."""
        if not self.has_begun():
            return
        sight = Sight(self.state, self.state.at_s)
        for waiter in self.state.waiters.values():
            if waiter.recall_within_s is None:
                continue
            for lease in sight.holders_before(waiter):
                asked = lease.recall is not None and waiter.id in (
                    lease.recall.claims or [waiter.id]
                )
                higher = waiter.priority > lease.claim.priority
                assert asked or lease.revoked_by or not higher, (
                    f"P7: {lease} not recalled: {waiter}"
                )
        for lease in self.state.leases.values():
            for id_ in lease.recall.claims if lease.recall and not lease.revoked_by else ():
                assert id_ in self.state.waiters, f"P7: nobody asks for {lease} any more"

    @invariant()
    def p7_delegation_never_widens(self) -> None:
        """A part lies inside what it was carved out of, and parts are disjoint."""
        if not self.has_begun():
            return
        by_parent: dict[str, list[Claim]] = {}
        for lease in self.state.leases.values():
            parent = lease.claim.parent
            if parent:
                above = self.state.leases[parent].claim
                assert ground(lease.claim.globs) <= ground(above.globs), f"{lease} is wider"
                assert above.mode is Mode.EXCLUSIVE
                self.check_lasting(self.state.leases[parent], lease)
                by_parent.setdefault(parent, []).append(lease.claim)
        for parts in by_parent.values():
            for one, other in itertools.combinations(parts, 2):
                assert not ground(one.globs) & ground(other.globs), "P1: parts are disjoint"

    def check_lasting(self, parent: Lease, child: Lease) -> None:
        """A lease ends no sooner than what was carved out of it, unless it lapsed, was revoked, or lost its session."""
        alive = parent.claim.session in self.state.sessions and not parent.revoked_by
        if alive and not parent.lapsed(self.state.at_s):
            assert parent.expires_at_s >= child.expires_at_s, f"{parent} ends before {child}"

    @invariant()
    def p11_indexes_follow_from_the_rest(self) -> None:
        """Counts and lists beside the leases are what they are from scratch."""
        if self.has_begun():
            assert indexes_in(self.state) == indexes_of(self.state)
