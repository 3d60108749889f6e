"""A snapshot says what the log says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.core.commands import (
    Beat,
    ClaimLease,
    DropRescue,
    EndSession,
    Heartbeat,
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
from leasefs.core.intents import IntentKind, OnDirty, Outcome
from leasefs.core.lease import Mode
from leasefs.core.ledger import State, decide
from leasefs.core.records import Rescue
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
        lambda session, key, id_, text: ReleaseLease(
            session, key, id_, on_dirty=OnDirty.KEEP, note=text
        ),
        st.sampled_from(SESSIONS),
        st.uuids().map(str),
        ids,
        st.sampled_from(["", "half \udcff"]),
    ),
)
commands = st.one_of(
    leftovers,
    leftovers,
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


def test_a_snapshot_from_before_intents_is_read() -> None:
    state = _played([])
    new = json.loads(snapshot.written(Saved(state, None)))
    old = {name: new[name] for name in new if name not in {"works", "trees", "rescues", "notes"}}
    again = snapshot.read(json.dumps({**old, "format": 1}).encode())
    assert _all(again.state) == _all(state)


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
