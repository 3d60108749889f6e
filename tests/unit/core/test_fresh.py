"""Freshness: the ledger keeps the last success of each check, and no more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from leasefs.core.answers import FreshAnswer
from leasefs.core.commands import RecordFresh
from leasefs.core.errors import InvalidRequest
from leasefs.core.fresh import KEYS_REMEMBERED, answers
from leasefs.core.records import Fresh
from leasefs.testing.ledger_driver import LedgerDriver

LINT = Fresh("t", "lint", "a" * 64, "b" * 64, ("src/**",), 3, "ada", "here", 1.5)


def keys(ledger: LedgerDriver, territory: str = "t", key: str | None = None) -> list[str]:
    return [one.key for one in answers(ledger.state, territory, key, ledger.now_s)]


def test_the_last_success_under_a_key_is_kept() -> None:
    ledger = LedgerDriver()
    assert keys(ledger) == []
    decision = ledger.run(RecordFresh(LINT))
    assert ledger.happened == ["FreshRecorded"]
    assert isinstance(decision.answer, FreshAnswer)
    assert decision.answer.ago_s == 0.0
    ledger.now_s += 60
    (found,) = answers(ledger.state, "t", "lint", ledger.now_s)
    assert (found.content, found.ago_s, found.took_s) == ("a" * 64, 60.0, 1.5)
    ledger.run(RecordFresh(replace(LINT, content="c" * 64)))
    (found,) = answers(ledger.state, "t", None, ledger.now_s)
    assert (found.content, found.ago_s) == ("c" * 64, 0.0)


def test_territories_and_keys_are_apart() -> None:
    ledger = LedgerDriver()
    for fresh in (replace(LINT, key="types"), LINT, replace(LINT, territory="u")):
        ledger.run(RecordFresh(fresh))
    assert keys(ledger) == ["lint", "types"]
    assert keys(ledger, key="types") == ["types"]
    assert keys(ledger, key="none") == []
    assert keys(ledger, "u") == ["lint"]
    assert keys(ledger, "v") == []


def test_the_oldest_makes_way() -> None:
    ledger = LedgerDriver()
    for number in range(KEYS_REMEMBERED):
        ledger.now_s += 1
        ledger.run(RecordFresh(replace(LINT, key=f"k{number}")))
    ledger.now_s += 1
    ledger.run(RecordFresh(replace(LINT, key="k0")))
    assert len(keys(ledger)) == KEYS_REMEMBERED
    ledger.run(RecordFresh(replace(LINT, key="one more")))
    assert len(keys(ledger)) == KEYS_REMEMBERED
    assert keys(ledger, key="k0") == ["k0"]
    assert keys(ledger, key="k1") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ""},
        {"key": "k" * 200},
        {"key": "a\nb"},
        {"key": " a"},
        {"territory": ""},
        {"content": "A" * 64},
        {"content": "a" * 63},
        {"command": ""},
        {"globs": ("g" * 5000,)},
        {"host": "h" * 5000},
        {"files": 0},
        {"took_s": -1.0},
    ],
)
def test_what_is_no_success_is_refused(wrong: dict[str, object]) -> None:
    ledger = LedgerDriver()
    decision = ledger.run(RecordFresh(replace(LINT, **wrong)))
    assert isinstance(decision.error, InvalidRequest)
    assert ledger.happened == []
