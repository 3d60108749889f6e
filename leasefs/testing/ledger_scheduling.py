"""Rules of the ledger's state machine: downgrades, delegation, recalls and more time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from leasefs.core.answers import LeaseAnswer
from leasefs.core.commands import AskForTime, DelegateLease, DowngradeLease, RecallLease
from leasefs.core.delegating import MAX_DEPTH
from leasefs.core.intents import OnDirty
from leasefs.core.lease import Mode
from leasefs.core.records import replace
from leasefs.testing.ledger_claims import Claiming, some_globs
from leasefs.testing.naive_queue import GLOBS, MATCHED, Sight, ground

if TYPE_CHECKING:
    from leasefs.core.records import Lease

_REFUSED = {"session-ended", "invalid", "lost", "not-contained", "conflict", "over-cap", "dirty"}


def _alone(glob: str) -> tuple[str, ...]:
    return (glob,)


class Scheduling(Claiming):
    """What holders do with what they hold, and what is asked of them."""

    def of_open_sessions(self) -> list[str]:
        """Leases whose sessions are there, for more than to give up what they hold."""
        return [
            id_
            for id_, lease in self.state.leases.items()
            if (session := self.state.sessions.get(lease.claim.session)) and not session.revoked_by
        ]

    @precondition(lambda self: self.of_open_sessions())
    @rule(data=st.data(), what=st.sampled_from(["asks", "hears", "shares", "recalls"]))
    def holder_acts(self, data: st.DataObject, what: str) -> None:
        """What a holder does but once in a while."""
        if what == "asks" and self.state.recalled:
            self.more_time(data, data.draw(st.sampled_from([0.5, 1.0, 2.0])))
        elif what == "shares":
            self.downgrade(data, data.draw(st.booleans()))
        elif what == "recalls" and self.state.children:
            self.recall(data, data.draw(st.sampled_from([5.0, 600.0])), by_parent=True)
        elif self.carved:
            self.hear_of_what_came_back(data)

    def downgrade(self, data: st.DataObject, lost: bool) -> None:
        """Share what was held alone; the holder stops writing before it asks."""
        id_ = self.pick(data, self.of_open_sessions())
        lease = self.state.leases[id_]
        session = lease.claim.session
        trusted = self.trust_s.pop((session, id_), None)
        decision = self.twice(DowngradeLease(session, self.key(), id_))
        if decision.error is not None:
            assert decision.error.code in ("lost", "invalid"), decision.error
            return
        after = self.state.leases[id_]
        assert after.claim.mode is Mode.SHARED
        assert after.token > lease.token or lease.claim.mode is Mode.SHARED
        if trusted is not None and not lost:
            self.trust_s[session, id_] = (trusted[0], after.claim)

    def may_delegate(self) -> list[str]:
        """Leases of which a part might be given away."""
        return [
            id_
            for id_ in self.of_open_sessions()
            if self.state.leases[id_].claim.mode is Mode.EXCLUSIVE
            and not self.state.leases[id_].lapsed(self.state.at_s)
        ]

    @precondition(lambda self: self.may_delegate())
    @rule(
        data=st.data(),
        wider=st.sampled_from([False, False, False, True]),
        ttl_s=st.sampled_from([None, 1800.0, 10.0]),
        lost=st.booleans(),
    )
    def delegate(self, data: st.DataObject, wider: bool, ttl_s: float | None, lost: bool) -> None:
        """Give a part away: the giver stops writing there before it asks."""
        parent = self.state.leases[self.pick(data, self.may_delegate())]
        session = parent.claim.session
        paths = ground(parent.claim.globs)
        inside = [glob for glob in GLOBS if MATCHED[glob] <= paths]
        globs = data.draw(
            some_globs if wider or not inside else st.sampled_from(inside).map(_alone)
        )
        to = data.draw(st.sampled_from("abcd" if parent.claim.territory == "t" else "ef"))
        on_dirty = data.draw(st.sampled_from([OnDirty.REFUSE, OnDirty.KEEP]))
        command = DelegateLease(
            session, self.key(), parent.id, globs, to, ttl_s=ttl_s, on_dirty=on_dirty
        )
        self.carved[session, command.key] = ground(globs)
        sent_s = self.t_s
        decision = self.twice(command)
        if decision.error is None:
            assert isinstance(decision.answer, LeaseAnswer)
            child = decision.answer.lease
            self.carved[session, child] = self.carved.pop((session, command.key))
            self.check_child(parent, self.state.leases[child])
            if not lost:
                self.trust(self.state.leases[child].claim.session, decision.answer, sent_s)
            return
        del self.carved[session, command.key]
        if decision.error.code == "deadlock":
            to_session = self.state.sessions[self.state.by_agent[parent.claim.territory, to]]
            child_claim = replace(
                parent.claim,
                id="wanted",
                session=to_session.id,
                globs=globs,
                parent=parent.id,
                claimed_at_s=max(self.state.at_s, self.t_s - self.lag_s),
            )
            self.check_deadlock(child_claim, granted=True)
        else:
            assert decision.error.code in _REFUSED, decision.error

    def check_child(self, parent: Lease, child: Lease) -> None:
        """A part lasts no longer than what it is a part of, and is no deeper than the bound."""
        sight = Sight(self.state, self.state.at_s)
        assert len(sight.ancestors(child.claim)) < MAX_DEPTH
        assert self.state.leases[parent.id].expires_at_s >= child.expires_at_s

    def hear_of_what_came_back(self, data: st.DataObject) -> None:
        """A giver hears that a part has ended, sooner or later, and writes there again."""
        session, id_ = data.draw(st.sampled_from(sorted(self.carved)))
        if id_ not in self.state.leases:
            del self.carved[session, id_]

    def recall(self, data: st.DataObject, within_s: float, *, by_parent: bool) -> None:
        """An operator asks for a lease, or whoever delegated it."""
        parts = [id_ for ids in self.state.children.values() for id_ in ids]
        lease = self.state.leases[self.pick(data, parts if by_parent else list(self.state.leases))]
        parent = self.state.leases.get(lease.claim.parent)
        if by_parent and parent is not None:
            command = RecallLease(lease.id, within_s, session=parent.claim.session)
        else:
            command = RecallLease(lease.id, within_s, by="operator")
        decision = self.run_command(command)
        if decision.error is not None:
            assert decision.error.code == "unknown-lease", decision.error
            assert lease.claim.frozen_by
            return
        sight = Sight(self.state, self.state.at_s)
        for one in self.state.leases.values():
            if lease.id in (one.id, *sight.ancestors(one.claim)):
                assert one.revoked_by or (one.recall is not None and not one.recall.claims)

    def more_time(self, data: st.DataObject, part: float) -> None:
        """A holder asks for more time: once, and no more than it was given."""
        lease = self.state.leases[self.pick(data, list(self.state.recalled))]
        recall = lease.recall
        assert recall is not None
        command = AskForTime(lease.claim.session, lease.id, recall.within_s * part)
        decision = self.run_command(command)
        allowed = not (recall.extended or lease.revoked_by or part > 1.0 or not recall.within_s)
        assert (decision.error is None) == allowed
        if allowed:
            after = self.state.leases[lease.id].recall
            assert after is not None
            assert after.deadline_s == recall.deadline_s + command.extra_s
            assert self.run_command(command).error is not None, "P7: once"
