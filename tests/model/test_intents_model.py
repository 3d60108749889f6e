"""Long random histories of intents against a naive model: nothing is lost, nothing is invented (P8, P9).

The model is a dictionary. Agents change paths in two trees under leases that are held, lapsed, taken, revoked or
long over; mounts die and their journals are replayed; git settles paths; snapshots are made and dropped; the
release gate is asked in every way; the ledger starts again from its log.
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

from leasefs.core.answers import IntentsAnswer, LeaseAnswer
from leasefs.core.commands import (
    ClaimLease,
    DropRescue,
    EndSession,
    Note,
    OpenSession,
    ReleaseLease,
    ReportIntents,
    ReportRescue,
    RevokeLease,
    SettleIntents,
    Settlement,
    StartLedger,
    Tick,
)
from leasefs.core.events import Granted, Released
from leasefs.core.intents import NAMES_KEPT, IntentKind, OnDirty, Outcome, Require
from leasefs.core.ledger import apply
from leasefs.core.records import Rescue
from leasefs.core.views import WantedIntents, intents
from leasefs.testing.ledger_driver import LedgerDriver
from leasefs.testing.naive_intents import Grant, Key, Known, on
from leasefs.testing.state_machines import run_machine

if TYPE_CHECKING:
    from leasefs.core.commands import AnyCommand

GLOBS = ("x/1", "x/*", "y/**", "**", "*/1", "z")
PATHS = ("x/1", "x/2", "y/1", "y/d/2", "y/d/", "z", "w/\udce9")
TREES = ("t-1", "t-2")


class IntentsMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.ledger = LedgerDriver()
        self.log: list[Any] = []
        self.counter = itertools.count()
        self.sessions = {agent: f"session-{agent}" for agent in "abc"}
        self.model: dict[Key, Known] = {}
        self.notes: dict[str, tuple[str, ...]] = {}
        self.rescues: dict[str, tuple[str, ...]] = {}
        self.granted: dict[str, Grant] = {}
        self.from_start = self.ledger.state

    def do(self, command: AnyCommand) -> Any:
        decision = self.ledger.run(command)
        told: dict[str, tuple[str, ...]] = {}
        for recorded in decision.events:
            self.log.append(recorded)
            event = recorded.event
            if isinstance(event, Granted):
                claim = event.claim
                self.granted[claim.id] = Grant(
                    claim.id, recorded.seq, claim.agent, claim.session, claim.globs
                )
                self.hand_over(event, told)
            elif isinstance(event, Released) and event.note:
                self.notes[event.lease] = self.granted[event.lease].globs
        return decision

    def hand_over(self, event: Granted, told: dict[str, tuple[str, ...]]) -> None:
        """`told` are the notes that others were handed by the same decision: of one release to several, each is."""
        handed = {note.lease for note in event.notes}
        due = {id_ for id_, globs in self.notes.items() if self.meet(globs, event.claim.globs)}
        again = {id_ for id_, globs in told.items() if self.meet(globs, event.claim.globs)}
        assert due <= handed <= due | again, (
            "each note goes to the next holders of overlapping ground, by one decision"
        )
        for id_ in due:
            told[id_] = self.notes.pop(id_)

    def meet(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        tried = [*PATHS, "x/3", "q/1", "y/2"]
        return any(on(path, one) and on(path, other) for path in tried if path[-1] != "/")

    def agent(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from("abc"))

    # ---- leases --------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        globs=st.lists(st.sampled_from(GLOBS), min_size=1, max_size=2, unique=True).map(tuple),
        wait=st.booleans(),
    )
    def claim(self, data: st.DataObject, globs: tuple[str, ...], wait: bool) -> None:
        agent, ledger = self.agent(data), self.ledger
        command = ClaimLease(
            self.sessions[agent], f"k{next(self.counter)}", globs, ttl_s=60.0, wait=wait
        )
        decision = self.do(command)
        if decision.error is None and decision.answer.state == "granted":
            self.check_inherited(ledger.look(decision.answer))

    def check_inherited(self, answer: LeaseAnswer) -> None:
        told = answer.inherits
        assert told is not None
        others = sorted(
            (key.path, key.tree, key.lease, key.agent)
            for key, known in self.model.items()
            if key.agent != answer.agent and known.state == "dirty" and on(key.path, answer.globs)
        )
        said = sorted((one.path, one.tree, one.lease, one.agent) for one in told.uncommitted)
        assert said == others[:NAMES_KEPT], "P9: the next holder is told what it inherits"
        assert told.uncommitted_count == len(others)
        there = {id_ for id_, globs in self.rescues.items() if self.meet(globs, answer.globs)}
        assert {rescue.id for rescue in told.rescues} == there
        assert told.rescues_count == len(there)

    @rule(data=st.data(), what=st.sampled_from(["end", "replace", "revoke", "restart", "wait"]))
    def trouble(self, data: st.DataObject, what: str) -> None:
        agent = self.agent(data)
        if what == "end":
            self.do(EndSession(self.sessions[agent]))
            self.open(agent)
        elif what == "replace":
            self.open(agent)
        elif what == "revoke" and len(self.ledger.state.leases):
            self.do(
                RevokeLease(
                    "operator", data.draw(st.sampled_from(sorted(self.ledger.state.leases)))
                )
            )
        elif what == "restart":
            self.replay()
            self.do(StartLedger("s", "boot"))
        else:
            self.pass_s(100.0)

    def open(self, agent: str) -> None:
        session = f"session-{agent}-{next(self.counter)}"
        opened = OpenSession(
            session, "0" * 64, agent, "shell", "t", "mount", "host", 1, replace=True
        )
        assert self.do(opened).error is None
        self.sessions[agent] = session

    @rule(seconds=st.sampled_from([1.0, 30.0, 61.0]))
    def pass_s(self, seconds: float) -> None:
        self.ledger.now_s += seconds
        self.do(Tick(tuple(self.ledger.state.leases), tuple(self.ledger.state.sessions)))

    def replay(self) -> None:
        state = self.from_start
        for recorded in self.log:
            state = apply(state, recorded)
        assert state == self.ledger.state, "P11: replay gives the same state"

    # ---- intents -------------------------------------------------------------------------------

    @precondition(lambda self: self.granted)
    @rule(
        data=st.data(),
        paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=4, unique=True),
        tree=st.sampled_from(TREES),
        kind=st.sampled_from(IntentKind),
        recovered=st.booleans(),
    )
    def note(
        self, data: st.DataObject, paths: list[str], tree: str, kind: IntentKind, recovered: bool
    ) -> None:
        """Changes under any lease that ever was, reported by its own mount or by whoever finds the journal."""
        granted = self.granted[data.draw(st.sampled_from(sorted(self.granted)))]
        reporter = self.agent(data) if recovered else granted.agent
        now_s = self.ledger.now_s
        notes = tuple(Note(path, kind, granted.lease, granted.token, now_s) for path in paths)
        command = ReportIntents(
            self.sessions[reporter], tree, "h", "/r", notes, recovered, granted.agent, "shell"
        )
        lease = self.ledger.state.leases.get(granted.lease)
        live = lease is not None and (recovered or lease.claim.session == self.sessions[reporter])
        decision = self.do(command)
        if live and not all(on(path, granted.globs) for path in paths):
            assert decision.error is not None
            assert decision.error.code == "invalid"
            return
        answer = decision.answer
        assert isinstance(answer, IntentsAnswer)
        assert answer.accepted == len(paths)
        assert [stale.path for stale in answer.stale] == ([] if live else paths), "stale is marked"
        for path in paths:
            self.change(Key(granted.lease, granted.agent, tree, path), now_s)
        assert not self.do(command).events, "P6: reported twice is reported once"

    def change(self, key: Key, now_s: float) -> None:
        before = self.model.get(key)
        if before is None:
            self.model[key] = Known("dirty", "", now_s, now_s)
        elif before.state == "committed":
            self.model[key] = Known("dirty", before.commit, now_s, now_s)
        else:
            self.model[key] = before._replace(last_s=now_s)

    @rule(
        data=st.data(),
        paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=4, unique=True),
        tree=st.sampled_from(TREES),
        outcome=st.sampled_from(Outcome),
        done=st.booleans(),
        old=st.booleans(),
    )
    def settle(
        self,
        data: st.DataObject,
        paths: list[str],
        tree: str,
        outcome: Outcome,
        done: bool,
        old: bool,
    ) -> None:
        committed = outcome is Outcome.COMMITTED
        done = done and committed
        commit = "c0ffee" * committed
        as_of_s = self.ledger.now_s - 1.0 if old else None
        command = SettleIntents(
            self.sessions[self.agent(data)],
            tree,
            tuple(Settlement(path, outcome, commit, "", done) for path in paths),
            as_of_s,
        )
        assert self.do(command).error is None
        for key, known in list(self.model.items()):
            changed_since = as_of_s is not None and known.last_s > as_of_s
            if key.tree != tree or key.path not in paths or changed_since:
                continue
            if done or outcome in (Outcome.CLEAN, Outcome.LANDED):
                del self.model[key]
            else:
                state = "committed" if committed else "dirty"
                self.model[key] = known._replace(state=state, commit=commit)
        assert not self.do(command).events, "settled twice is settled once"

    @precondition(lambda self: self.model)
    @rule(data=st.data(), part=st.booleans())
    def rescue(self, data: st.DataObject, part: bool) -> None:
        """Any session snapshots what one lease left in one tree; what cannot be stored stays an intent.

        What another open session still holds stays one as well: its own mount looks after it.
        """
        one = data.draw(st.sampled_from(sorted(self.model)))
        paths = [
            key.path
            for key in sorted(self.model)
            if (key.lease, key.agent, key.tree) == (one.lease, one.agent, one.tree)
        ]
        contained = tuple(paths[: 1 + len(paths) // 2] if part else paths)
        id_ = f"{one.lease}-{next(self.counter)}"
        globs = self.granted[one.lease].globs
        rescue = Rescue(
            id_,
            "t",
            one.tree,
            one.lease,
            1,
            one.agent,
            "shell",
            globs,
            "refs/x",
            "c",
            1,
            (),
            "gone",
            1.0,
        )
        reporter = self.sessions[self.agent(data)]
        command = ReportRescue(reporter, rescue, (*contained, "not/noted"))
        held = self.ledger.state.leases.get(one.lease)
        holder = reporter if held is None else held.claim.session
        assert self.do(command).error is None
        assert not self.do(command).events, "told twice is told once"
        self.rescues[id_] = globs
        if holder != reporter and holder in self.ledger.state.sessions:
            return
        for path in contained:
            del self.model[Key(one.lease, one.agent, one.tree, path)]

    @precondition(lambda self: self.rescues)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(sorted(self.rescues)))
        assert self.do(DropRescue(self.sessions[self.agent(data)], id_)).answer.dropped
        assert not self.do(DropRescue(self.sessions[self.agent(data)], id_)).answer.dropped
        del self.rescues[id_]

    @precondition(lambda self: self.ledger.state.leases)
    @rule(
        data=st.data(),
        require=st.sampled_from(Require),
        on_dirty=st.sampled_from(OnDirty),
        note=st.sampled_from(["", "half done"]),
    )
    def release(self, data: st.DataObject, require: Require, on_dirty: OnDirty, note: str) -> None:
        claim = self.ledger.state.leases[
            data.draw(st.sampled_from(sorted(self.ledger.state.leases)))
        ].claim
        key = f"k{next(self.counter)}"
        command = ReleaseLease(
            claim.session, key, claim.id, require=require, on_dirty=on_dirty, note=note
        )
        if claim.session not in self.ledger.state.sessions:
            return
        bad = [
            key.path
            for key, known in self.model.items()
            if (key.lease, key.agent) == (claim.id, claim.agent)
            and (known.state == "dirty" or require is Require.PUSHED)
            and require is not Require.NONE
        ]
        decision = self.do(command)
        if bad and on_dirty in (OnDirty.REFUSE, OnDirty.RESCUED):
            assert decision.error is not None
            assert decision.error.code == "dirty"
            assert sorted(bad) == decision.error.details["paths"]
            assert claim.id in self.ledger.state.leases, "P9: no lease ends with work unseen"
        else:
            assert decision.error is None
            assert not self.do(command).events, "P6: released twice is released once"

    # ---- what must always hold -----------------------------------------------------------------

    @invariant()
    def nothing_lost_nothing_invented(self) -> None:
        if not hasattr(self, "model"):
            return
        said = {
            Key(one.lease, one.agent, one.tree, one.path): Known(
                one.state.value, one.commit, one.first_wall_s, one.last_wall_s
            )
            for one in intents(self.ledger.state, WantedIntents())
        }
        assert said == self.model
        dirty = sum(known.state == "dirty" for known in self.model.values())
        assert self.ledger.state.uncommitted.counts() == (dirty, len(self.model) - dirty)

    @invariant()
    def each_is_found_by_lease_and_by_path(self) -> None:
        if not hasattr(self, "model"):
            return
        uncommitted = self.ledger.state.uncommitted
        for key in self.model:
            work = uncommitted.work("t", key.lease, key.agent)
            assert work is not None
            assert (key.tree, key.path) in work.intents
            assert any(
                (one.lease, one.agent) == (key.lease, key.agent)
                for one in uncommitted.of_path("t", key.tree, key.path)
            )


def test_no_intent_is_lost_or_invented_over_random_histories() -> None:
    """P8, P9 and P11, a few seconds' worth."""
    run_machine(IntentsMachine, examples=150, steps=50)


@pytest.mark.slow
def test_no_intent_is_lost_or_invented_over_long_random_histories() -> None:
    """The same, for longer; a failure here is not shrunk."""
    run_machine(IntentsMachine, examples=600, steps=120, phases=(Phase.generate,))
