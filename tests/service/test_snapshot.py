"""A snapshot says what the log says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.core.commands import (
    ClaimLease,
    DelegateLease,
    Freeze,
    SetAdmission,
    SetHold,
)
from leasefs.core.events import LedgerRestored, Recorded
from leasefs.core.lease import Mode
from leasefs.core.ledger import State, apply, decide
from leasefs.core.records import Admission
from leasefs.service import snapshot, wire_json
from leasefs.service.clock import ClockMark
from leasefs.service.entries import record_of
from leasefs.service.recovery import recover
from leasefs.service.snapshot import Saved
from leasefs.store.memory import MemoryStore
from leasefs.store.port import Snapshot
from leasefs.testing.command_histories import SESSIONS, histories, open_command


def _played(history: Any, store: Any = None) -> Any:
    state, now_s = State(), 0.0
    for number in range(3):
        state = decide(state, open_command(number), now_s).state
    for command, passed_s in history:
        now_s += passed_s
        state = decide(state, command, now_s).state
    return state


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
    for command, passed_s in [(open_command(0), 0.0), (open_command(1), 0.0), *history]:
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
    ("format_", "missing"),
    [
        (1, {*OF_INTENTS, "admission", "identities"}),
        (2, {"admission", "identities"}),
        (3, {"identities"}),
    ],
)
def test_snapshots_of_older_formats_are_read(format_: int, missing: set[str]) -> None:
    """Before intents, before admission and recall, before identities: what they lack is as if it had never been."""
    held = ClaimLease(SESSIONS[0], "a", ("a/**",), ttl_s=600.0)
    state = _played([(held, 0.0), (ClaimLease(SESSIONS[1], "b", ("a/b",), wait=True), 5.0)])
    new = json.loads(snapshot.written(Saved(state, ClockMark("boot", 12.5))))
    old = {name: new[name] for name in new if name not in missing}
    old["sessions"] = _without(old["sessions"], {"identity", "revoked_by"})
    old["waiters"] = _without(old["waiters"], OF_CLAIMS)
    old["leases"] = [
        {**lease, "claim": _without([lease["claim"]], OF_CLAIMS)[0]}
        for lease in _without(old["leases"], {"recall", "hold_until_s"})
    ]
    again = snapshot.read(json.dumps({**old, "format": format_}).encode())
    assert _all(again.state) == _all(state)
    assert again.clock == ClockMark("boot", 12.5)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"format":4}',
        b'{"format":3}',
        b'{"format":2}',
        b"\x00\xff",
        b'{"format":1,"seq":3}',
    ],
)
def test_a_snapshot_that_cannot_be_read_is_refused_and_passed_over(
    data: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(wire_json.Unreadable):
        snapshot.read(data)
    store = MemoryStore()
    opened = decide(State(), open_command(0), 1.0)
    store.append(0, [record_of(opened.events[0], State(), opened.state, 0.0).data])
    store.save_snapshot(Snapshot(1, data))
    assert recover(store).state.seq == 1
    assert "passed over" in caplog.text


def test_a_ledger_that_grants_nothing_yet_does_not_forget_it_over_a_restart() -> None:
    state = _played([(ClaimLease(SESSIONS[0], "a", ("a/**",)), 0.0)])
    event = LedgerRestored("root", state.seq, 0, 600.0)
    state = apply(state, Recorded(state.seq + 1_000, state.at_s, event))
    again = snapshot.read(snapshot.written(Saved(state, None))).state
    assert _all(again) == _all(state)
    assert again.closed_until_s == state.at_s + 600.0
