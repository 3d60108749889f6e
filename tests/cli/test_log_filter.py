"""`leasefs log --agent` and `--path`: which events are about whom and what, wherever the reading begins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.core import views
from leasefs.core.globs import parse_glob
from leasefs.core.state import State, apply
from leasefs.service import wire_json
from leasefs.service.entries import record_of
from leasefs.testing.command_histories import GLOBS, decisions, histories, open_command
from leasefs_cli.log_filter import LogFilter

NOTHING: Any = {"sessions": [], "leases": [], "waiters": []}


def told(state: State) -> Any:
    """The state as /v1/history tells it."""
    answers = {
        "sessions": views.sessions(state, None, state.at_s),
        "leases": views.leases(state, None, state.at_s),
        "waiters": views.waiters(state, None, state.at_s),
    }
    return json.loads(wire_json.encode(answers))


def played(history: Any) -> tuple[list[Any], list[State]]:
    events, states = [], [State()]
    for before, decision in decisions(history):
        for event in decision.events:
            record = record_of(event, before, decision.state, 0.0)
            events.append(json.loads(record.with_seq()))
            states.append(apply(states[-1], event))
    return events, states


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    histories,
    st.sampled_from([None, "agent-0", "agent-1"]),
    st.sampled_from([None, *GLOBS]),
    st.integers(0, 100),
)
def test_wherever_it_begins_the_same_events_are_taken(
    history: Any, agent: str | None, glob: str | None, cut: int
) -> None:
    events, states = played([(open_command(0), 0.0), (open_command(1), 0.0), *history])
    about = None if glob is None else parse_glob(glob)
    whole = LogFilter(agent, about, NOTHING)
    taken = [one["seq"] for one in events if whole.takes(one)]
    start = cut % (len(events) + 1)
    part = LogFilter(agent, about, told(states[start]))
    assert [one["seq"] for one in events[start:] if part.takes(one)] == [
        seq for seq in taken if seq > start
    ]
    if agent is None and about is None:
        assert len(taken) == len(events)


@pytest.mark.parametrize(
    ("event", "path", "taken"),
    [
        ({"type": "writes-refused", "refusals": [{"path": "src/a.py"}]}, "src/**", True),
        ({"type": "writes-refused", "refusals": [{"path": "docs/a"}]}, "src/**", False),
        ({"type": "claim-refused", "globs": ["**/a.py"]}, "src/**", True),
        ({"type": "intents-noted", "intents": [{"path": "x", "other": "src/b"}]}, "src/**", True),
        ({"type": "rescued", "rescue": {"names": ["src/\udce9"], "globs": []}}, "src/**", True),
        ({"type": "intents-noted", "intents": [{"path": "src/d/"}]}, "src/d", True),
        ({"type": "session-ended", "session": "S1"}, "src/**", False),
        ({"type": "released", "lease": "L1"}, "src/**", False),
    ],
)
def test_paths_and_globs_in_events(event: Any, path: str, taken: bool) -> None:
    assert LogFilter(None, parse_glob(path), NOTHING).takes({"seq": 1, "event": event}) is taken


IDENTITY = {"name": "ci-7", "added_by": "ann (release manager)"}


@pytest.mark.parametrize(
    ("event", "agents"),
    [
        ({"type": "agent-added", "identity": IDENTITY}, {"ci-7", "ann"}),
        ({"type": "agent-rotated", "agent": "ci-7", "by": "root"}, {"ci-7", "root"}),
        ({"type": "agent-revoked", "agent": "ci-7", "by": "ann"}, {"ci-7", "ann"}),
        ({"type": "hold-set", "by": "ann (agent-02)"}, {"ann"}),
        ({"type": "ledger-reopened", "by": "bo"}, {"bo"}),
        ({"type": "lapsed", "lease": "L1"}, set()),
    ],
)
def test_whom_an_event_is_by_or_about(event: Any, agents: set[str]) -> None:
    asked = ("ci-7", "ann", "bo", "root", "agent-02", "an")
    record = {"seq": 1, "event": event}
    assert {name for name in asked if LogFilter(name, None, NOTHING).takes(record)} == agents


def test_what_names_only_a_lease_is_known_by_it() -> None:
    lease = {"lease": "L1", "globs": ["src/**"]}
    before = {**NOTHING, "leases": [lease]}
    filter_ = LogFilter(None, parse_glob("src/a"), before)
    renewed = {"type": "renewed", "session": "S", "leases": [{"lease": "L1"}]}
    assert filter_.takes({"seq": 1, "event": {"type": "lapsed", "lease": "L1"}})
    assert filter_.takes({"seq": 2, "event": renewed})
    assert not filter_.takes({"seq": 3, "event": {"type": "lapsed", "lease": "L2"}})
