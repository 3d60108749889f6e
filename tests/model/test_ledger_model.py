"""Long random histories against a naive model of the promises.

The model knows no index, no automaton and no queue: overlap is brute force over a few paths, and a
holder is a dictionary of moments until which it would still write. Hypothesis drives sessions,
claims, heartbeats that arrive late or whose answers are lost, suspended machines, a ledger clock that
stutters, restarts, revocations and replaced sessions.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import Phase
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from leasefs.core.answers import HeartbeatAnswer, LeaseAnswer
from leasefs.core.commands import (
    AnyCommand,
    Beat,
    ClaimLease,
    EndSession,
    Heartbeat,
    OpenSession,
    ReleaseLease,
    RevokeLease,
    StartLedger,
    Tick,
)
from leasefs.core.events import Granted
from leasefs.core.globs import parse_glob
from leasefs.core.lease import Mode, trust_margin_s
from leasefs.core.ledger import Decision, State, apply, decide
from leasefs.core.renewal import lease_due_at_s
from leasefs.testing.state_machines import run_machine

if TYPE_CHECKING:
    from leasefs.core.records import Claim

AGENTS = ("a", "b", "c", "d")
GLOBS = ("x/1", "x/2", "x/*", "y/1", "y/**", "z", "**", "*/1", "x/[12]", "**/2")
UNIVERSE = [b"x/1", b"x/2", b"x/3", b"y/1", b"y/2", b"y/d/2", b"z", b"w/1", b"w/2"]
MATCHED = {glob: {path for path in UNIVERSE if parse_glob(glob).matches(path)} for glob in GLOBS}
TTLS_S = (1.0, 10.0, 60.0, 1800.0)


def ground(globs: tuple[str, ...]) -> set[bytes]:
    return set().union(*(MATCHED[glob] for glob in globs))


def clash(one: Claim, other: Claim) -> bool:
    both_shared = one.mode is Mode.SHARED and other.mode is Mode.SHARED
    return (
        one.session != other.session
        and one.territory == other.territory
        and not both_shared
        and bool(ground(one.globs) & ground(other.globs))
    )


def order(claim: Claim) -> tuple[float, int]:
    """P7 in its own words: by arrival, a level of priority being worth five minutes of waiting."""
    return (claim.claimed_at_s - 300.0 * claim.priority, int(claim.id[1:]))


class LedgerMachine(RuleBasedStateMachine):
    """True time is `t_s`; the ledger's clock may stand still but never runs ahead of it."""

    @initialize()
    def start(self) -> None:
        self.t_s = 100.0
        self.lag_s = 0.0
        self.state = State()
        self.log: list[Any] = []
        self.counter = itertools.count()
        self.tokens_seen = 0
        self.sessions: dict[str, str] = {}
        self.trust_s: dict[tuple[str, str], tuple[float, Claim]] = {}
        self.run_command(StartLedger("s", "boot"))
        for agent in AGENTS:
            self.open(agent, replace=False)

    # ---- driving -------------------------------------------------------------------------------

    def run_command(self, command: AnyCommand) -> Decision:
        before = self.state
        decision = decide(before, command, self.t_s - self.lag_s)
        state = before
        for recorded in decision.events:
            self.check_event(state, recorded)
            state = apply(state, recorded)
        assert state == decision.state or self.same(state, decision.state)
        self.state = decision.state
        self.log += decision.events
        return decision

    @staticmethod
    def same(one: State, other: State) -> bool:
        return (one.seq, one.sessions, one.leases, one.waiters, one.by_agent, one.of_session) == (
            other.seq,
            other.sessions,
            other.leases,
            other.waiters,
            other.by_agent,
            other.of_session,
        )

    def check_event(self, state: State, recorded: Any) -> None:
        if not isinstance(recorded.event, Granted):
            return
        claim = recorded.event.claim
        assert recorded.seq > self.tokens_seen, "P1: fencing tokens only grow"
        self.tokens_seen = recorded.seq
        overtaken = [
            other
            for other in state.waiters.values()
            if other.id != claim.id and clash(claim, other) and order(other) < order(claim)
        ]
        assert not overtaken, "P7: nobody is overtaken by a later claim that conflicts with theirs"

    def tick(self) -> None:
        due = [
            id_ for id_ in self.state.leases if (lease_due_at_s(self.state, id_) or 0.0) <= self.t_s
        ]
        self.run_command(Tick(leases=tuple(due), sessions=tuple(self.state.sessions)))

    def pick(self, data: st.DataObject, options: list[str]) -> str:
        return data.draw(st.sampled_from(sorted(options)))

    def trust(self, session: str, answer: LeaseAnswer, sent_s: float) -> None:
        if answer.state == "granted":
            claim = self.state.leases[answer.lease].claim
            until_s = sent_s + answer.ttl_s - trust_margin_s(answer.ttl_s)
            self.trust_s[session, answer.lease] = (until_s, claim)

    # ---- what may happen -----------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.0, 3.0, 8.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.t_s += seconds
        self.tick()

    @rule(
        data=st.data(),
        what=st.sampled_from(["sleep", "stutter", "restart", "end", "replace", "open"]),
    )
    def trouble(self, data: st.DataObject, what: str) -> None:
        """The rare things, together one rule, so that most steps are claims and heartbeats."""
        if what == "sleep":
            self.time_passes(data.draw(st.sampled_from([95.0, 2000.0])))
        elif what == "stutter":
            self.lag_s += data.draw(st.sampled_from([0.5, 5.0]))
        elif what == "restart":
            self.restart()
        elif what == "end":
            self.end(self.pick(data, list(self.sessions)))
        else:
            self.open(data.draw(st.sampled_from(AGENTS)), replace=what == "replace")

    def restart(self) -> None:
        state = State()
        for recorded in self.log:
            state = apply(state, recorded)
        assert self.same(state, self.state), "P11: replay gives the same state"
        self.state = state
        self.run_command(StartLedger("s", "boot"))

    def open(self, agent: str, replace: bool) -> None:
        session = f"session-{agent}-{next(self.counter)}"
        command = OpenSession(
            session, "0" * 64, agent, "h", "t", "mount", "host", 1, replace=replace
        )
        decision = self.run_command(command)
        if decision.error is None:
            self.sessions[session] = agent
            assert not self.run_command(command).events, "P6: opened twice is opened once"

    def end(self, session: str) -> None:
        for key in [key for key in self.trust_s if key[0] == session]:
            del self.trust_s[key]  # it stops writing before it says so
        self.run_command(EndSession(session))
        if len(self.sessions) > 1:
            del self.sessions[session]

    @rule(
        data=st.data(),
        globs=st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3, unique=True),
        mode=st.sampled_from(Mode),
        ttl_s=st.sampled_from(TTLS_S),
        priority=st.integers(-1, 2),
        wait=st.sampled_from([True, True, False]),
        delay_s=st.sampled_from([0.0, 0.2, 2.0]),
        lost=st.booleans(),
    )
    def claim(
        self,
        data: st.DataObject,
        globs: list[str],
        mode: Mode,
        ttl_s: float,
        priority: int,
        wait: bool,
        delay_s: float,
        lost: bool,
    ) -> None:
        session = self.pick(data, list(self.sessions))
        key = f"k{next(self.counter)}"
        command = ClaimLease(session, key, tuple(globs), mode, ttl_s, priority, wait)
        sent_s = self.t_s
        self.time_passes(delay_s)
        decision = self.run_command(command)
        if decision.error is not None:
            assert not wait or decision.error.code in ("deadlock", "session-ended")
            return
        assert isinstance(decision.answer, LeaseAnswer)
        if not lost:
            self.trust(session, decision.answer, sent_s)
        again = self.run_command(command)
        assert isinstance(again.answer, LeaseAnswer)
        assert again.answer.lease == decision.answer.lease, "P6: sent twice, it answers the same"
        assert not any(isinstance(item.event, Granted) for item in again.events), (
            "P6: and acts once"
        )

    def held(self, session: str) -> list[str]:
        return [id_ for id_, lease in self.state.leases.items() if lease.claim.session == session]

    @rule(data=st.data(), delay_s=st.sampled_from([0.0, 0.2, 2.0]), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, delay_s: float, lost: bool) -> None:
        session = self.pick(data, list(self.sessions))
        beats = tuple(Beat(id_, self.state.leases[id_].token) for id_ in self.held(session))
        sent_s = self.t_s
        self.time_passes(delay_s)
        present = {id_ for id_ in self.held(session) if not self.state.leases[id_].revoked_by}
        had_token = {id_: self.state.leases[id_].token for id_ in present}
        lapsed = {id_ for id_ in present if self.state.leases[id_].lapsed(self.state.at_s)}
        decision = self.run_command(Heartbeat(session, beats))
        if decision.error is not None:
            assert decision.error.code == "session-ended"
            return
        answer = decision.answer
        assert isinstance(answer, HeartbeatAnswer)
        renewed = {item.lease: item.token for item in answer.renewed}
        for beat in beats:
            if beat.lease in present and (beat.lease not in lapsed or not self.state.waiters):
                assert renewed.get(beat.lease) == had_token[beat.lease], (
                    "P5: a lease that nobody took is given back with the same token"
                )
        if not lost:
            for item in answer.renewed:
                until_s = sent_s + item.ttl_s - trust_margin_s(item.ttl_s)
                claim = self.state.leases[item.lease].claim
                old_s = self.trust_s.get((session, item.lease), (0.0, claim))[0]
                self.trust_s[session, item.lease] = (max(old_s, until_s), claim)
            for gone in answer.lost:
                self.trust_s.pop((session, gone.lease), None)

    @precondition(lambda self: self.state.leases or self.state.waiters)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = self.pick(data, [*self.state.leases, *self.state.waiters])
        held = self.state.leases.get(lease)
        session = (held.claim if held else self.state.waiters[lease]).session
        self.trust_s.pop((session, lease), None)
        command = ReleaseLease(session, f"k{next(self.counter)}", lease)
        decision = self.run_command(command)
        if decision.error is None:
            assert not self.run_command(command).events, "P6: released twice is released once"
        else:
            assert decision.error.code == "session-ended"

    @precondition(lambda self: self.state.leases)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        if data.draw(st.integers(0, 2)):
            return
        self.run_command(RevokeLease("operator", self.pick(data, list(self.state.leases))))

    @precondition(lambda self: any(lease.revoked_by for lease in self.state.leases.values()))
    @rule(data=st.data())
    def drop_revoked(self, data: st.DataObject) -> None:
        revoked = [id_ for id_, lease in self.state.leases.items() if lease.revoked_by]
        lease = self.pick(data, revoked)
        session = self.state.leases[lease].claim.session
        self.trust_s.pop((session, lease), None)
        self.run_command(Heartbeat(session, (), (lease,)))

    # ---- what must always hold -----------------------------------------------------------------

    @invariant()
    def p1_exclusion(self) -> None:
        if not hasattr(self, "state"):
            return
        claims = [lease.claim for lease in self.state.leases.values()]
        for one, other in itertools.combinations(claims, 2):
            assert not clash(one, other), f"P1: {one} and {other} are both held"

    @invariant()
    def p3_nobody_else_writes(self) -> None:
        if not hasattr(self, "state"):
            return
        writing = [claim for until_s, claim in self.trust_s.values() if self.t_s < until_s]
        for one, other in itertools.combinations(writing, 2):
            assert not clash(one, other), f"P3: {one} and {other} are both trusted"

    @invariant()
    def p7_no_waiter_is_forgotten(self) -> None:
        if not hasattr(self, "state"):
            return
        state, now_s = self.state, self.state.at_s
        for waiter in state.waiters.values():
            by_lease = any(
                clash(waiter, lease.claim) and not lease.lapsed(now_s)
                for lease in state.leases.values()
            )
            by_waiter = any(
                clash(waiter, other) and order(other) < order(waiter)
                for other in state.waiters.values()
                if other.id != waiter.id
            )
            assert by_lease or by_waiter, f"P7: nothing stands before {waiter}, yet it waits"

    @invariant()
    def p7_no_cycle(self) -> None:
        if not hasattr(self, "state"):
            return
        edges = self.wait_edges()
        while edges:
            leaves = {one for one in edges if not edges[one] & set(edges)}
            assert leaves, f"P7: a cycle of waiters was let in: {edges}"
            edges = {one: to for one, to in edges.items() if one not in leaves}

    def wait_edges(self) -> dict[str, set[str]]:
        state, now_s = self.state, self.state.at_s
        edges: dict[str, set[str]] = {}
        for waiter in state.waiters.values():
            to = edges.setdefault(waiter.session, set())
            to |= {
                lease.claim.session
                for lease in state.leases.values()
                if clash(waiter, lease.claim)
                and not lease.lapsed(now_s)
                and not lease.revoked_by  # it ends whatever its holder waits for
            }
            to |= {
                other.session
                for other in state.waiters.values()
                if clash(waiter, other) and order(other) < order(waiter)
            }
        return edges


def test_promises_hold_over_random_histories() -> None:
    """P1, P3, P5, P6, P7 and P11, a few seconds' worth."""
    run_machine(LedgerMachine, examples=150, steps=60)


@pytest.mark.slow
def test_promises_hold_over_long_random_histories() -> None:
    """The same, for longer; a failure here is not shrunk, that takes too long."""
    run_machine(LedgerMachine, examples=1500, steps=150, phases=(Phase.generate,))
