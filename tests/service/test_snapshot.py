"""A snapshot says what the log says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.core.commands import (
    AskForTime,
    Beat,
    ClaimLease,
    DelegateLease,
    DowngradeLease,
    DropRescue,
    EndSession,
    Freeze,
    Heartbeat,
    Note,
    OpenSession,
    RecallLease,
    ReleaseLease,
    ReportIntents,
    ReportRescue,
    RevokeLease,
    SetAdmission,
    SetHold,
    SettleIntents,
    Settlement,
    StartLedger,
    Tick,
    Unfreeze,
)
from leasefs.core.intents import IntentKind, OnDirty, Outcome
from leasefs.core.lease import Mode
from leasefs.core.ledger import State, decide
from leasefs.core.records import Admission, Rescue
from leasefs.service import snapshot, wire_json
from leasefs.service.clock import ClockMark
from leasefs.service.entries import record_of
from leasefs.service.recovery import recover
from leasefs.service.snapshot import Saved
from leasefs.store.memory import MemoryStore
from leasefs.store.port import Snapshot

GLOBS = ["a/**", "a/b", "**/x.py", "c/*", "\udce9/**", "d/[ab]"]
SESSIONS = [f"session-{number}" for number in range(4)]

opens = st.builds(
    lambda number, replace: OpenSession(
        SESSIONS[number], "0" * 64, f"agent-{number % 3}", "h", "t", "shell", "host", 1, "", replace
    ),
    st.integers(0, 3),
    st.booleans(),
)
claims = st.builds(
    ClaimLease,
    st.sampled_from(SESSIONS),
    st.uuids().map(str),
    st.lists(st.sampled_from(GLOBS), min_size=1, max_size=2).map(tuple),
    st.sampled_from(Mode),
    st.sampled_from([1.0, 60.0, 3600.0]),
    st.integers(-2, 2),
    st.booleans(),
    st.sampled_from(["", "why \udcff"]),
)
ids = st.integers(1, 60).map(lambda number: f"L{number}")
releases = st.builds(ReleaseLease, st.sampled_from(SESSIONS), st.uuids().map(str), ids)
beats = st.builds(
    lambda session, id_: Heartbeat(session, (Beat(id_, int(id_[1:]), ("1 vi \udce9",)),)),
    st.sampled_from(SESSIONS),
    ids,
)
ticks = st.builds(lambda id_: Tick(tuple(f"L{n}" for n in range(60)), (*SESSIONS, id_)), ids)
texts = st.sampled_from(["a/b", "a/x.py", "c/d/", "\udce9/q", "zz"])
agents = st.sampled_from([f"agent-{number}" for number in range(3)])
trees = st.sampled_from(["t-1", "t-2"])
reports = st.builds(
    lambda session, tree, id_, paths, wall_s, agent: ReportIntents(
        session,
        tree,
        "host",
        "/r\udce9",
        tuple(Note(path, IntentKind.MODIFY, id_, int(id_[1:]), wall_s) for path in paths),
        True,
        agent,
        "h",
    ),
    st.sampled_from(SESSIONS),
    trees,
    ids,
    st.lists(texts, max_size=3),
    st.floats(0, 9),
    agents,
)
settlements = st.builds(
    lambda session, tree, paths, outcome: SettleIntents(
        session, tree, tuple(Settlement(path, outcome, "c") for path in paths)
    ),
    st.sampled_from(SESSIONS),
    trees,
    st.lists(texts, max_size=3),
    st.sampled_from(Outcome),
)
rescues = st.builds(
    lambda session, tree, id_, agent, paths, globs: ReportRescue(
        session,
        Rescue(id_, "", tree, id_, 1, agent, "h", globs, "r", "c", 1, paths, "", 1.0),
    ),
    st.sampled_from(SESSIONS),
    trees,
    ids,
    agents,
    st.lists(texts, max_size=3).map(tuple),
    st.lists(st.sampled_from(GLOBS), max_size=2).map(tuple),
)
leftovers = st.one_of(
    reports,
    settlements,
    rescues,
    st.builds(DropRescue, st.sampled_from(SESSIONS), ids),
    st.builds(
        lambda session, key, id_, text, on_dirty: ReleaseLease(
            session, key, id_, on_dirty=on_dirty, note=text
        ),
        st.sampled_from(SESSIONS),
        st.uuids().map(str),
        ids,
        st.sampled_from(["", "half \udcff"]),
        st.sampled_from([OnDirty.KEEP, OnDirty.HAND_ON]),
    ),
)
recallers = st.builds(
    lambda session, key, globs, priority, within_s: ClaimLease(
        session, key, globs, priority=priority, wait=True, recall_within_s=within_s
    ),
    st.sampled_from(SESSIONS),
    st.uuids().map(str),
    st.lists(st.sampled_from(GLOBS), min_size=1, max_size=2).map(tuple),
    st.integers(1, 3),
    st.sampled_from([0.0, 30.0, 600.0]),
)
scheduled = st.one_of(
    recallers,
    recallers,
    st.builds(
        lambda session, key, id_: ReleaseLease(session, key, id_, commit="c0ffee", again=True),
        st.sampled_from(SESSIONS),
        st.uuids().map(str),
        ids,
    ),
    st.builds(
        DelegateLease,
        st.sampled_from(SESSIONS),
        st.uuids().map(str),
        ids,
        st.just(("a/b",)),
        agents,
    ),
    st.builds(DowngradeLease, st.sampled_from(SESSIONS), st.uuids().map(str), ids),
    st.builds(RecallLease, ids, st.sampled_from([0.0, 30.0]), st.just("why"), st.just("op")),
    st.builds(AskForTime, st.sampled_from(SESSIONS), ids, st.just(20.0)),
    st.builds(SetHold, st.just("op"), ids, st.sampled_from([0.0, 5000.0])),
    st.builds(
        lambda most, hold_s: SetAdmission("t", Admission(most, most, None, None, hold_s, "r", "b")),
        st.sampled_from([None, 0, 1, 5]),
        st.sampled_from([None, 60.0]),
    ),
    st.builds(
        lambda key, glob, ttl_s: Freeze("op", key, "t", (glob,), "split it", 30.0, ttl_s),
        st.uuids().map(str),
        st.sampled_from(GLOBS),
        st.sampled_from([None, 60.0]),
    ),
    st.builds(Unfreeze, st.just("op"), ids),
)
commands = st.one_of(
    leftovers,
    scheduled,
    scheduled,
    opens,
    claims,
    claims,
    releases,
    beats,
    ticks,
    st.builds(EndSession, st.sampled_from(SESSIONS)),
    st.builds(RevokeLease, st.just("op"), ids),
    st.just(StartLedger("s", "boot", 5.0)),
)
histories = st.lists(st.tuples(commands, st.sampled_from([0.0, 0.5, 100.0, 1e6])), max_size=60)


def _played(history: Any, store: Any = None) -> Any:
    state, now_s = State(), 0.0
    for number in range(3):
        state = decide(state, _open(number), now_s).state
    for command, passed_s in history:
        now_s += passed_s
        state = decide(state, command, now_s).state
    return state


def _open(number: int) -> Any:
    return OpenSession(SESSIONS[number], "0" * 64, f"agent-{number}", "h", "t", "shell", "host", 1)


def _all(state: State) -> Any:
    return {name: getattr(state, name) for name in state.__struct_fields__}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_state_to_bytes_and_back(history: Any) -> None:
    state = _played(history)
    saved = Saved(state, ClockMark("boot", 12.5))
    again = snapshot.read(snapshot.written(saved))
    assert _all(again.state) == _all(state)
    assert again.clock == saved.clock


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories, st.integers(0, 100))
def test_replaying_from_any_snapshot_gives_the_same_state(history: Any, cut: int) -> None:
    """P11: the state at any number can be replayed from the log."""
    store, state, now_s = MemoryStore(), State(), 0.0
    after = [state]
    for command, passed_s in [(_open(0), 0.0), (_open(1), 0.0), *history]:
        now_s += passed_s
        decision = decide(state, command, now_s)
        for recorded in decision.events:
            record = record_of(recorded, state, decision.state, 0.0)
            store.append(recorded.seq - 1, [record.data])
        state = decision.state
        after.append(state)
    assert _all(recover(store).state) == _all(state)
    kept = after[min(cut, len(after) - 1)]
    store.save_snapshot(Snapshot(kept.seq, snapshot.written(Saved(kept, None))))
    assert _all(recover(store).state) == _all(state)


def test_a_snapshot_has_what_the_scheduler_knows() -> None:
    """One history in which each field of it is not its default."""
    claim = ClaimLease(SESSIONS[0], "a", ("a/**",))
    state = _played(
        [
            (claim, 0.0),
            (DelegateLease(SESSIONS[0], "d", "L4", ("a/b",), "agent-1"), 0.0),
            (SetHold("op", "L4", 50.0), 0.0),
            (SetAdmission("t", Admission(5, 5, 5, 0.5, 60.0, "CI", "op")), 0.0),
            (ClaimLease(SESSIONS[2], "s", ("c/x",), Mode.SHARED, share=0.1), 0.0),
            (
                ClaimLease(
                    SESSIONS[2],
                    "r",
                    ("a/c",),
                    priority=9,
                    wait=True,
                    recall_within_s=9.0,
                    share=0.1,
                ),
                0.0,
            ),
            (Freeze("op", "f", "t", ("d/a",), "split it"), 0.0),
        ]
    )
    again = snapshot.read(snapshot.written(Saved(state, None))).state
    assert _all(again) == _all(state)
    assert again.leases["L4"].hold_until_s == 50.0
    assert again.leases["L4"].recall is not None
    assert list(again.children) == ["L4"]
    assert len(again.recalled) == 2
    assert again.exclusive["t"] == 2
    assert again.admission["t"].reason == "CI"
    assert [lease.claim.note for lease in again.leases.values() if lease.claim.frozen_by] == [
        "split it"
    ]


def _without(ones: list[dict[str, Any]], names: set[str]) -> list[dict[str, Any]]:
    return [{name: one[name] for name in one if name not in names} for one in ones]


OF_CLAIMS = {
    *("recall_within_s", "replaces", "parent", "resumes", "frozen_by", "queued_at_s"),
}
OF_INTENTS = {"works", "trees", "rescues", "notes"}


@pytest.mark.parametrize(
    ("format_", "missing"), [(1, {*OF_INTENTS, "admission"}), (2, {"admission"})]
)
def test_snapshots_of_older_formats_are_read(format_: int, missing: set[str]) -> None:
    """Before intents, and before admission and recall: what they lack is as if it had never been."""
    held = ClaimLease(SESSIONS[0], "a", ("a/**",), ttl_s=600.0)
    state = _played([(held, 0.0), (ClaimLease(SESSIONS[1], "b", ("a/b",), wait=True), 5.0)])
    new = json.loads(snapshot.written(Saved(state, ClockMark("boot", 12.5))))
    old = {name: new[name] for name in new if name not in missing}
    old["waiters"] = _without(old["waiters"], OF_CLAIMS)
    old["leases"] = [
        {**lease, "claim": _without([lease["claim"]], OF_CLAIMS)[0]}
        for lease in _without(old["leases"], {"recall", "hold_until_s"})
    ]
    again = snapshot.read(json.dumps({**old, "format": format_}).encode())
    assert _all(again.state) == _all(state)
    assert again.clock == ClockMark("boot", 12.5)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"format":3}', b'{"format":2}', b"\x00\xff", b'{"format":1,"seq":3}']
)
def test_a_snapshot_that_cannot_be_read_is_refused_and_passed_over(
    data: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(wire_json.Unreadable):
        snapshot.read(data)
    store = MemoryStore()
    opened = decide(State(), _open(0), 1.0)
    store.append(0, [record_of(opened.events[0], State(), opened.state, 0.0).data])
    store.save_snapshot(Snapshot(1, data))
    assert recover(store).state.seq == 1
    assert "passed over" in caplog.text
