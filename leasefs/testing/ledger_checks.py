"""What each event of a random history must respect, given the state before it (P1, P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core import events as ev
from leasefs.core.commands import (
    AnyCommand,
    RecallLease,
    ReleaseLease,
    RevokeAgent,
    RevokeLease,
    Tick,
)
from leasefs.core.lease import SESSION_TTL_S, Mode
from leasefs.core.ledger import Decision, State, apply
from leasefs.testing.naive_queue import LEVEL_S, Sight, clash, order

if TYPE_CHECKING:
    from leasefs.core.records import Claim, Lease


class EventChecks:
    """Looks at events before they are applied. `state` is that before the whole decision."""

    state: State
    tokens_seen: int
    arrived_s: dict[str, float]

    def check_event(self, state: State, recorded: ev.Recorded, command: AnyCommand) -> None:
        """What one event must respect, given the state before it."""
        event = recorded.event
        if isinstance(event, ev.Granted):
            self.check_grant(state, recorded, event.claim)
        elif isinstance(event, ev.Queued):
            self.check_arrival(event.claim, recorded)
        elif isinstance(event, ev.Recalled):
            self.check_recall(state, event, command)
        elif isinstance(event, ev.Revoked) and event.for_recall:
            recall = state.leases[event.lease].recall
            assert recall is not None
            assert recorded.at_s >= recall.deadline_s, "P7: a holder has the time that it was given"
        elif isinstance(event, ev.Released | ev.Expired):
            parent = state.leases.get(state.leases[event.lease].claim.parent)
            heard = parent.claim.session if parent else ""
            assert event.returns_to == heard, "P7: who delegated hears that it is back"

    def check_grant(self, state: State, recorded: ev.Recorded, claim: Claim) -> None:
        """P1: tokens grow. P7: nobody is overtaken, and limits are kept."""
        assert recorded.seq > self.tokens_seen, "P1: fencing tokens only grow"
        self.tokens_seen = recorded.seq
        if claim.id not in state.waiters:
            self.check_arrival(claim, recorded)
        sight = Sight(state, recorded.at_s, extra=[claim])
        if claim.parent:
            return  # carved out of what its giver holds: whoever waits for that is no worse off
        overtaken = sight.waiters_before(claim)
        assert not overtaken, "P7: nobody is overtaken by a later claim that conflicts with theirs"
        self.check_bound(sight, claim)
        if claim.mode is not Mode.EXCLUSIVE:
            return
        if sight.is_full(claim.territory):
            assert sight.goes_above_limits(claim), "P7: a full territory lets in whom it must, only"
        elif claim.territory in state.admission and not Sight(
            self.state, recorded.at_s
        ).has_lapsed_unseen(claim.territory):
            replaced = self.state.leases.get(claim.replaces)
            first = [
                one
                for one in sight.only_admission_before(claim.territory)
                if one.mode is Mode.EXCLUSIVE
                and order(one) < order(claim)
                and not (replaced and clash(one, replaced.claim))  # which stood before it
            ]
            assert not first, f"P7: admission goes in the order of service: {first} before {claim}"

    def check_bound(self, sight: Sight, claim: Claim) -> None:
        """P7, the stated bound, by when claims were really made: five minutes for each level of difference.

        What comes back after a recall has had its turn: for it the time counts that it was given then.
        """
        for other in sight.waiters.values():
            if other.id != claim.id and clash(claim, other):
                levels = claim.priority - other.priority
                since_s = other.claimed_at_s if other.resumes else self.arrived_s[other.id]
                later_s = self.arrived_s[claim.id] - since_s
                assert later_s <= max(0.0, levels * LEVEL_S), f"P7: {claim} overtakes {other}"

    def check_arrival(self, claim: Claim, recorded: ev.Recorded) -> None:
        """Nobody claims an earlier time than its own, nor than that of what it brings back."""
        first_s = self.arrived_s.get(claim.resumes, recorded.at_s)
        assert claim.claimed_at_s >= first_s, f"P7: {claim} is younger than it says"
        self.arrived_s[claim.id] = first_s

    def check_recall(self, state: State, event: ev.Recalled, command: AnyCommand) -> None:
        """P7: only a higher priority recalls, or somebody who may."""
        lease, recall = state.leases[event.lease], event.recall
        before = lease.recall
        for id_ in recall.claims:
            priority = state.waiters[id_].priority
            assert priority > lease.claim.priority, "P7: equal priority never recalls"
        if not recall.claims and (before is None or before.claims):
            by_cap = isinstance(command, Tick)
            assert isinstance(command, RecallLease) or by_cap, "P7: somebody asked for it"
        if before is not None and not recall.extended:
            assert recall.deadline_s <= before.deadline_s, "P7: a second recall gives no more time"

    def check_come_backs(self, before: State, decision: Decision, command: AnyCommand) -> None:
        """P7: who had to yield comes back behind those it yielded to, or is told why not."""
        state = before
        told = {
            one.event.session for one in decision.events if isinstance(one.event, ev.ClaimRefused)
        }
        queued = {
            one.event.claim.resumes: one.event.claim
            for one in decision.events
            if isinstance(one.event, ev.Queued)
        }
        for recorded in decision.events:
            event = recorded.event
            if isinstance(event, ev.Released | ev.Expired):
                lease = state.leases[event.lease]
                if self.must_come_back(state, lease, event, recorded.at_s, command):
                    again = queued.get(lease.id)
                    assert again is not None or lease.claim.session in told, (
                        f"P7: {lease} was taken from its holder, who heard nothing"
                    )
                    assert again is None or self.is_behind(state, again, lease)
            state = apply(state, recorded)

    @staticmethod
    def must_come_back(
        state: State, lease: Lease, event: ev.Event, at_s: float, command: AnyCommand
    ) -> bool:
        """Whether this end is one that a recall forced on a holder that lives."""
        session = state.sessions.get(lease.claim.session)
        if session is None or lease.recall is None or lease.claim.parent in state.leases:
            return False
        forced = isinstance(event, ev.Expired) and bool(lease.revoked_by)
        forced = forced and not isinstance(command, RevokeLease | RevokeAgent)  # which is for good
        taken = isinstance(event, ev.Expired) and "taken by" in event.reason
        wished = isinstance(command, ReleaseLease) and command.again and command.lease == lease.id
        yielded = isinstance(event, ev.Released) and wished
        alive = at_s - session.seen_at_s < SESSION_TTL_S
        return alive and ((forced and not taken) or yielded)

    @staticmethod
    def is_behind(state: State, again: Claim, lease: Lease) -> bool:
        """Whether what comes back stands behind those that it was recalled for."""
        assert lease.recall is not None
        asked = [state.waiters[id_] for id_ in lease.recall.claims if id_ in state.waiters]
        return all(order(one) < order(again) for one in asked)
