"""Rules of the ledger's state machine: limits, holds, freezes, and work that has or has not landed."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import rule

from leasefs.core.commands import (
    AddAgent,
    Freeze,
    Note,
    ReportIntents,
    ReportRescue,
    RevokeAgent,
    SetAdmission,
    SetHold,
    SettleIntents,
    Settlement,
    Unfreeze,
)
from leasefs.core.intents import IntentKind, Outcome
from leasefs.core.lease import Mode
from leasefs.core.records import Admission, Rescue
from leasefs.core.roles import GREATEST_PRIORITY, Role
from leasefs.testing.ledger_claims import some_globs
from leasefs.testing.ledger_machine import AGENTS
from leasefs.testing.ledger_scheduling import Scheduling
from leasefs.testing.naive_queue import MATCHED

limits = st.builds(
    Admission,
    max_exclusive=st.sampled_from([None, None, 0, 1, 2, 3]),
    max_unlanded=st.sampled_from([None, None, None, 0, 1, 2]),
    max_leases=st.sampled_from([None, None, None, 1, 3]),
    max_share=st.sampled_from([None, None, None, 0.5]),
    max_hold_s=st.sampled_from([None, None, None, 5.0, 100.0]),
)


class Operating(Scheduling):
    """What operators decide, and what mounts report of their trees."""

    @rule(
        data=st.data(),
        what=st.sampled_from(
            ["limit", "lift", "hold", "freeze", "unfreeze", "revoke", "recall", "identity"]
        ),
    )
    def operator_acts(self, data: st.DataObject, what: str) -> None:
        """The rare things, together one rule."""
        if what in ("limit", "lift"):
            limit = data.draw(limits) if what == "limit" else Admission()
            self.set_admission(data.draw(st.sampled_from("tu")), limit)
        elif what == "freeze" and not self.frozen():
            self.freeze(data)
        elif what in ("freeze", "unfreeze"):
            self.unfreeze(data)
        elif what == "identity":
            self.issue_or_revoke(data.draw(st.sampled_from(AGENTS))[0])
        elif not self.state.leases:
            return
        elif what == "hold":
            self.set_hold(data, data.draw(st.sampled_from([0.0, 10.0, 5000.0])))
        elif what == "revoke":
            self.revoke(data)
        else:
            self.recall(data, data.draw(st.sampled_from([0.0, 5.0, 600.0])), by_parent=False)

    def set_admission(self, territory: str, admission: Admission) -> None:
        """Limits and caps go up and down, and away."""
        assert self.run_command(SetAdmission(territory, admission)).error is None

    def set_hold(self, data: st.DataObject, hold_s: float) -> None:
        """One lease has a cap of its own: its holder is asked for it no sooner."""
        id_ = self.pick(data, list(self.state.leases))
        decision = self.run_command(SetHold("operator", id_, hold_s))
        lease = self.state.leases[id_]
        assert (decision.error is None) != bool(lease.claim.frozen_by)
        if decision.error is None:
            assert lease.hold_until_s == self.state.at_s + hold_s

    def issue_or_revoke(self, name: str) -> None:
        """An agent becomes an identity, or is one no more: then nothing of it waits, and it holds nothing for good."""
        identity = self.state.identities.get(name)
        if identity is None or not identity.is_live:
            number = next(self.counter)
            token, hash_ = f"{number:012x}", f"{number:064x}"
            command = AddAgent(
                "operator", name, Role.AGENT, token, hash_, priority=GREATEST_PRIORITY
            )
            assert self.twice(command).error is None
            return
        assert self.twice(RevokeAgent("operator", name)).error is None
        theirs = {id_ for id_, one in self.state.sessions.items() if one.identity == name}
        assert not any(waiter.session in theirs for waiter in self.state.waiters.values())
        for lease in self.state.leases.values():
            assert lease.revoked_by or lease.claim.session not in theirs

    def freeze(self, data: st.DataObject) -> None:
        """Nobody is to write there."""
        globs, territory = data.draw(some_globs), data.draw(st.sampled_from("tu"))
        within_s = data.draw(st.sampled_from([0.0, 5.0]))
        ttl_s = data.draw(st.sampled_from([10.0, 300.0, None]))
        command = Freeze("operator", self.key(), territory, globs, "why", within_s, ttl_s)
        assert self.twice(command).error is None

    def unfreeze(self, data: st.DataObject) -> None:
        """A freeze is lifted, or given up while it waits."""
        frozen = self.frozen()
        if frozen:
            id_ = self.pick(data, frozen)
            assert self.run_command(Unfreeze("operator", id_)).error is None
            assert id_ not in self.frozen()

    def frozen(self) -> list[str]:
        """Freezes that hold or wait."""
        claims = [
            *(lease.claim for lease in self.state.leases.values()),
            *self.state.waiters.values(),
        ]
        return [claim.id for claim in claims if claim.frozen_by]

    @rule(
        data=st.data(),
        lands=st.booleans(),
        outcome=st.sampled_from(["landed", "committed", "rescued"]),
    )
    def a_tree_tells(self, data: st.DataObject, lands: bool, outcome: str) -> None:
        """A mount reports what changed in its tree, or what became of it."""
        if lands and self.state.uncommitted.works:
            self.lands(data, outcome)
        elif self.writable():
            self.write(data)

    def write(self, data: st.DataObject) -> None:
        """A mount reports that a path changed under a lease."""
        lease = self.state.leases[self.pick(data, self.writable())]
        claim = lease.claim
        paths = sorted(set().union(*(MATCHED[glob] for glob in claim.globs)))
        path = data.draw(st.sampled_from(paths)).decode()
        note = Note(path, IntentKind.MODIFY, lease.id, lease.token, 1.0)
        command = ReportIntents(claim.session, "tree", "host", "/work", (note,))
        assert self.run_command(command).error is None

    def writable(self) -> list[str]:
        """Exclusive leases of sessions that are there."""
        return [
            id_
            for id_ in self.of_open_sessions()
            if self.state.leases[id_].claim.mode is Mode.EXCLUSIVE
        ]

    def lands(self, data: st.DataObject, outcome: str) -> None:
        """Work has landed, or was committed, or is kept in a rescue."""
        where = self.pick(data, list(self.state.uncommitted.works))
        sessions = [
            one.id
            for one in self.state.sessions.values()
            if one.territory == where and not one.revoked_by
        ]
        if not sessions:
            return
        works = self.state.uncommitted.works[where]
        work = works[self.pick(data, list(works))]
        paths = sorted({path for _, path in work.intents})
        session = self.pick(data, sessions)
        if outcome == "rescued":
            rescue = Rescue(
                f"r{next(self.counter)}", where, "tree", work.lease, 1, work.agent, "h", (), "ref", "c",
                len(paths), tuple(paths), "lost", 1.0, host="host", root="/work",
            )  # fmt: skip
            assert self.run_command(ReportRescue(session, rescue)).error is None
            return
        settled = tuple(Settlement(path, Outcome(outcome), "c0ffee") for path in paths)
        assert self.run_command(SettleIntents(session, "tree", settled)).error is None
