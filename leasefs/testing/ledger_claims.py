"""Rules of the ledger's state machine: claims, heartbeats and releases, with answers that get lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from leasefs.core.answers import HeartbeatAnswer, LeaseAnswer, RegionsAnswer
from leasefs.core.commands import (
    Beat,
    ClaimLease,
    ClaimRegions,
    Heartbeat,
    Region,
    ReleaseLease,
    RevokeLease,
)
from leasefs.core.events import Granted
from leasefs.core.intents import OnDirty
from leasefs.core.lease import Mode, trust_margin_s
from leasefs.core.records import Claim, Lease
from leasefs.testing.ledger_machine import LedgerMachine
from leasefs.testing.naive_queue import GLOBS, Sight

if TYPE_CHECKING:
    from leasefs.core.ledger import Decision

TTLS_S = (1800.0, 600.0, 60.0, 10.0, 1.0)
SHARES = (0.1, 0.9, None)


class Wish(NamedTuple):
    """What a claim asks for."""

    globs: tuple[str, ...]
    mode: Mode
    ttl_s: float
    priority: int
    wait: bool
    recall_within_s: float | None
    share: float | None


some_globs = st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3, unique=True).map(tuple)
priorities = st.sampled_from([0, 0, 0, 1, 2, -1, -20, 20, 100])
wishes = st.builds(
    Wish,
    some_globs,
    st.sampled_from([Mode.EXCLUSIVE, Mode.EXCLUSIVE, Mode.SHARED]),
    st.sampled_from(TTLS_S),
    priorities,
    st.sampled_from([True, True, True, False]),
    st.sampled_from([None, None, 0.0, 3.0, 60.0]),
    st.sampled_from(SHARES),
)


class Claiming(LedgerMachine):
    """Claims for one lease or several, kept or given back."""

    @rule(
        data=st.data(),
        wish=wishes,
        delay_s=st.sampled_from([0.0, 0.0, 0.2, 2.0]),
        lost=st.booleans(),
        upgrade=st.booleans(),
    )
    def claim(
        self, data: st.DataObject, wish: Wish, delay_s: float, lost: bool, upgrade: bool
    ) -> None:
        """Ask for a lease; an upgrade if the session shares something."""
        self.claim_lease(data, wish, delay_s, lost=lost, upgrade=upgrade)

    def claim_lease(
        self, data: st.DataObject, wish: Wish, delay_s: float, *, lost: bool, upgrade: bool
    ) -> None:
        """Send a claim; its answer arrives, or is lost."""
        session = self.pick(data, list(self.sessions))
        shared = [id_ for id_ in self.held(session) if self.is_shared(id_)]
        replaces = self.pick(data, shared) if upgrade and shared else ""
        wait = wish.wait or wish.recall_within_s is not None
        command = ClaimLease(
            session=session,
            key=self.key(),
            globs=wish.globs,
            mode=Mode.EXCLUSIVE if replaces else wish.mode,
            ttl_s=wish.ttl_s,
            priority=wish.priority,
            wait=wait,
            recall_within_s=wish.recall_within_s,
            replaces=replaces,
            share=wish.share,
        )
        sent_s = self.t_s
        if delay_s:
            self.time_passes(delay_s)
        self.trust_s.pop((session, replaces), None)  # it may end with the grant, unheard
        decision = self.run_command(command)
        if decision.error is None:
            self.heard(session, decision, sent_s, lost=lost)
            self.asked_again(command, decision)
        else:
            self.check_refusal(command, decision)

    @rule(
        data=st.data(),
        globs=st.lists(st.sampled_from(GLOBS[:3]), min_size=1, max_size=2, unique=True).map(tuple),
        priority=st.sampled_from([0, 1, 0, -1, 2]),
        recall_within_s=st.sampled_from([None, 60.0, None, 3.0]),
        later=st.sampled_from([False, False, True]),
    )
    def contend(
        self,
        data: st.DataObject,
        globs: tuple[str, ...],
        priority: int,
        recall_within_s: float | None,
        later: bool,
    ) -> None:
        """Wait for one of a few places that everybody wants: so queues get long, and old."""
        if later:
            self.everybody_stays(6)
        wish = Wish(globs, Mode.EXCLUSIVE, 1800.0, priority, True, recall_within_s, 0.1)
        self.claim_lease(data, wish, 0.0, lost=False, upgrade=False)

    def is_shared(self, id_: str) -> bool:
        """Whether a lease is shared."""
        return self.state.leases[id_].claim.mode is Mode.SHARED

    def heard(self, session: str, decision: Decision, sent_s: float, *, lost: bool) -> None:
        """The answer arrives, or not."""
        assert isinstance(decision.answer, LeaseAnswer)
        if not lost:
            self.trust(session, decision.answer, sent_s)

    def asked_again(self, command: ClaimLease, decision: Decision) -> None:
        """P6. A lease over the same globs that was there already is renewed; nothing is granted twice."""
        again = self.run_command(command)
        assert isinstance(again.answer, LeaseAnswer)
        assert isinstance(decision.answer, LeaseAnswer)
        assert again.answer.lease == decision.answer.lease, "P6: sent twice, it answers the same"
        granted = any(isinstance(item.event, Granted) for item in again.events)
        assert not granted, "P6: and acts once"

    def check_refusal(self, command: ClaimLease, decision: Decision) -> None:
        """A refusal is a true one."""
        assert decision.error is not None
        code = decision.error.code
        if code == "deadlock":
            self.check_deadlock(self.wanted(command))
        elif code == "over-cap":
            self.check_over_cap(command)
        elif code == "conflict":
            sight = Sight(self.state, self.state.at_s)
            wanted = self.wanted(command)
            there = sight.has_something_before(wanted) or sight.is_full(wanted.territory)
            assert there, "P10: nothing stood in its way"
            assert not command.wait
        else:
            assert code in ("session-ended", "unknown-lease"), decision.error

    def wanted(self, command: ClaimLease) -> Claim:
        """The claim that a command makes, if its session is there."""
        session = self.state.sessions[command.session]
        return Claim(
            id="wanted",
            territory=session.territory,
            session=session.id,
            agent=session.agent,
            harness=session.harness,
            globs=command.globs,
            mode=command.mode,
            ttl_s=command.ttl_s,
            priority=command.priority,
            claimed_at_s=max(self.state.at_s, self.t_s - self.lag_s),
            claimed_seq=self.state.seq + 1,
            recall_within_s=command.recall_within_s,
            replaces=command.replaces,
        )

    def check_deadlock(self, *wanted: Claim, granted: bool = False) -> None:
        """P7: a cycle that is refused is a real one: with the claim, its session would wait for ever."""
        now_s = wanted[0].claimed_at_s
        before = Sight(self.state, now_s)
        if granted or not before.has_something_before(wanted[0]):
            more = [Lease(claim, 0, now_s, now_s + claim.ttl_s) for claim in wanted]
            sight = Sight(self.state, now_s, more=more)
            for lease in more:
                sight.leases.pop(lease.claim.replaces, None)
        else:
            sight = RecalledSight(self.state, now_s, extra=wanted)
        assert wanted[0].session in sight.stuck(), f"P7: no cycle, yet {wanted} was refused"

    def check_over_cap(self, command: ClaimLease) -> None:
        """A cap was in the way."""
        claim = self.wanted(command)
        limits = self.state.admission[claim.territory]
        own = [
            one
            for one in (
                *(lease.claim for lease in self.state.leases.values()),
                *self.state.waiters.values(),
            )
            if one.session == claim.session
            and one.mode is Mode.EXCLUSIVE
            and one.id != claim.replaces
        ]
        too_many = limits.max_leases is not None and len(own) >= limits.max_leases
        too_wide = limits.max_share is not None and (
            command.share is None or command.share > limits.max_share
        )
        assert too_many or too_wide, "no cap was in the way"

    @rule(
        data=st.data(),
        regions=st.lists(some_globs, min_size=1, max_size=3),
        priority=priorities,
        lost=st.booleans(),
    )
    def claim_regions(
        self, data: st.DataObject, regions: list[tuple[str, ...]], priority: int, lost: bool
    ) -> None:
        """Several leases or none."""
        session = self.pick(data, list(self.sessions))
        asked = tuple(Region(globs, share=0.1) for globs in regions)
        command = ClaimRegions(session, self.key(), asked, priority=priority)
        before = dict(self.state.leases)
        decision = self.twice(command)
        if decision.error is None:
            assert isinstance(decision.answer, RegionsAnswer)
            ids = [one.lease for one in decision.answer.leases]
            assert [one.globs for one in decision.answer.leases] == list(regions)
            assert all(id_ in self.state.leases and id_ not in before for id_ in ids)
            again = self.run_command(command).answer
            assert isinstance(again, RegionsAnswer)
            assert [one.lease for one in again.leases] == ids, "P6: it answers the same"
            for one in decision.answer.leases if not lost else ():
                self.trust(session, one, self.t_s)
            return
        added = [lease for id_, lease in self.state.leases.items() if id_ not in before]
        assert not added, "P6: all of them or none"
        if decision.error.code == "deadlock":
            wanted = [
                self.wanted(ClaimLease(session, "", globs, priority=priority)) for globs in regions
            ]
            self.check_deadlock(*wanted, granted=True)

    @rule(data=st.data(), delay_s=st.sampled_from([0.0, 0.2, 2.0]), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, delay_s: float, lost: bool) -> None:
        """Renew all that a session holds (P5)."""
        session = self.pick(data, list(self.sessions))
        beats = tuple(Beat(id_, self.state.leases[id_].token) for id_ in self.held(session))
        sent_s = self.t_s
        if delay_s:
            self.time_passes(delay_s)
        present = {id_ for id_ in self.held(session) if not self.state.leases[id_].revoked_by}
        had_token = {id_: self.state.leases[id_].token for id_ in present}
        now_s = max(self.state.at_s, self.t_s - self.lag_s)
        lapsed = {id_ for id_ in present if self.state.leases[id_].lapsed(now_s)}
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
            self.renewed(session, answer, sent_s)

    @rule(minutes=st.sampled_from([0, 0, 1, 6, 11]))
    def all_stay(self, minutes: int) -> None:
        """Time passes and every session lives: waiters age, and holders keep what they hold."""
        self.everybody_stays(minutes)

    def everybody_stays(self, minutes: int) -> None:
        """A heartbeat of each session after each minute."""
        for _ in range(minutes or 1):
            self.time_passes(60.0 if minutes else 0.0)
            for session in list(self.sessions):
                beats = tuple(Beat(id_, self.state.leases[id_].token) for id_ in self.held(session))
                decision = self.run_command(Heartbeat(session, beats))
                if isinstance(decision.answer, HeartbeatAnswer):
                    self.renewed(session, decision.answer, self.t_s)

    def renewed(self, session: str, answer: HeartbeatAnswer, sent_s: float) -> None:
        """The answer to a heartbeat arrived."""
        for item in answer.renewed:
            if self.is_given_up(item.lease):
                continue
            until_s = sent_s + item.ttl_s - trust_margin_s(item.ttl_s)
            claim = self.state.leases[item.lease].claim
            old_s = self.trust_s.get((session, item.lease), (0.0, claim))[0]
            self.trust_s[session, item.lease] = (max(old_s, until_s), claim)
        for gone in answer.lost:
            self.trust_s.pop((session, gone.lease), None)

    @precondition(lambda self: self.state.leases or self.state.waiters)
    @rule(data=st.data(), again=st.booleans())
    def release(self, data: st.DataObject, again: bool) -> None:
        """Give back, or leave the queue; a recalled lease to come back, if that is wished."""
        lease = self.pick(data, [*self.state.leases, *self.state.waiters])
        held = self.state.leases.get(lease)
        session = (held.claim if held else self.state.waiters[lease]).session
        self.trust_s.pop((session, lease), None)
        on_dirty = data.draw(st.sampled_from([OnDirty.REFUSE, OnDirty.KEEP]))
        command = ReleaseLease(session, self.key(), lease, on_dirty=on_dirty, again=again)
        decision = self.twice(command)
        if decision.error is not None:
            assert decision.error.code in ("session-ended", "dirty")

    def revoke(self, data: st.DataObject) -> None:
        """An operator ends a lease and all that was carved out of it."""
        lease = self.pick(data, list(self.state.leases))
        self.run_command(RevokeLease("operator", lease))
        for one in self.state.leases.values():
            assert one.revoked_by or lease not in Sight(self.state, 0.0).ancestors(one.claim)

    @precondition(lambda self: any(lease.revoked_by for lease in self.state.leases.values()))
    @rule(data=st.data())
    def drop_revoked(self, data: st.DataObject) -> None:
        """A holder has stopped under a revoked lease."""
        revoked = [id_ for id_, lease in self.state.leases.items() if lease.revoked_by]
        lease = self.pick(data, revoked)
        session = self.state.leases[lease].claim.session
        self.trust_s.pop((session, lease), None)
        self.run_command(Heartbeat(session, (), (lease,)))


class RecalledSight(Sight):
    """What would be if a claim that recalls had been let in: what it may recall goes."""

    def holders_before(self, claim: Claim) -> list[Lease]:
        """Those that the claim cannot move."""
        found = super().holders_before(claim)
        if claim.id != "wanted" or claim.recall_within_s is None:
            return found
        return [lease for lease in found if lease.claim.priority >= claim.priority]
