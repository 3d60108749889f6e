"""What judges restarts under load finds each kind of wrong, and nothing in what is right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from leasefs.core import events as ev
from leasefs.core.commands import ClaimLease, ReleaseLease, StartLedger
from leasefs.core.records import replace
from leasefs.service.entries import record_of
from leasefs.store.memory import MemoryStore
from leasefs.testing.command_histories import SESSIONS, decisions, histories, open_command
from leasefs.testing.restarts.clients import Said
from leasefs.testing.restarts.verdict import builds, violations

GOOD: list[Any] = [
    (StartLedger("host:1 leasefs 0.1.0", "b"), 0.0),
    (open_command(0), 0.0),
    (open_command(1), 0.0),
    (ClaimLease(SESSIONS[0], "k1", ("a/**",)), 1.0),
    (ReleaseLease(SESSIONS[0], "r1", "L4"), 1.0),
    (ClaimLease(SESSIONS[1], "k2", ("a/x",)), 1.0),
]


def recorded(history: Any) -> list[Any]:
    return [
        (event, before, decision.state)
        for before, decision in decisions(history)
        for event in decision.events
    ]


def stored(log: list[Any]) -> MemoryStore:
    store = MemoryStore()
    for number, (event, before, after) in enumerate(log, 1):
        numbered = replace(event, seq=number)
        store.append(number - 1, [record_of(numbered, before, after, 0.0).data])
    return store


def answered(**changed: Any) -> list[Said]:
    first = {"grants": [("k1", "L4", 4)], "releases": [("r1", "L4")]}
    return [Said(**{**first, **changed}), Said(grants=[("k2", "L6", 6)])]


def test_what_is_right_is_right() -> None:
    store = stored(recorded(GOOD))
    assert violations(store, answered()) == []
    assert builds(store) == {"0.1.0"}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_no_history_of_the_real_rules_is_wrong(history: Any) -> None:
    assert violations(stored(recorded([*GOOD, *history])), answered()) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"grants": [("k1", "L4", 4), ("k9", "L9", 9)]},
            "L9 with token 9 was answered, and is not",
        ),
        ({"grants": [("k1", "L4", 5)]}, "L4 with token 5"),
        ({"releases": [("r2", "L6")]}, "the release of L6"),
        ({"grants": [("k1", "L4", 4), ("k2", "L6", 6)]}, "token 6 was given out 2 times"),
        ({"grants": [("k2", "L6", 6), ("k1", "L4", 4)]}, "older than one it had"),
        ({"differences": ["two answers"]}, "two answers"),
    ],
)
def test_a_wrong_answer_is_found(changed: Any, words: str) -> None:
    found = violations(stored(recorded(GOOD)), answered(**changed))
    assert any(words in line for line in found), found


def test_a_doubled_grant_is_found() -> None:
    """The release between two overlapping grants is gone."""
    log = [one for one in recorded(GOOD) if not isinstance(one[0].event, ev.Released)]
    found = violations(stored(log), [])
    assert found == ["event 5 grants what L4 holds"]


def test_a_key_that_acted_twice_is_found() -> None:
    log = recorded(GOOD)
    granted = log[-1]
    again = replace(
        granted[0], event=replace(granted[0].event, claim=replace(granted[0].event.claim, id="L7"))
    )
    found = violations(stored([*log, (again, *granted[1:])]), [])
    assert found == ["key k2 was granted 2 times"]
