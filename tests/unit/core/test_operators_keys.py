"""P6 of operators' requests, and of a holder's for more time: sent twice they act once; nobody's limits are overwritten unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.commands import (
    AskForTime,
    Freeze,
    RecallLease,
    SetAdmission,
    SetHold,
    Unfreeze,
)
from leasefs.core.keys import REMEMBERED
from leasefs.core.records import Admission

if TYPE_CHECKING:
    from leasefs.testing.ledger_driver import LedgerDriver


def requests(ledger: LedgerDriver) -> dict[str, tuple[Any, Any]]:
    """Each kind of request, and another one that must not have its key."""
    held, recalled = ledger.claim("a", "a/**"), ledger.claim("b", "b/**")
    ledger.answered(RecallLease(recalled.lease, 60.0, "now", "olga"))
    ledger.claim("c", "d/x")
    frozen = ledger.answered(Freeze("olga", "f1", "t", ("c/**",), "why"))
    waiting = ledger.answered(Freeze("olga", "f2", "t", ("d/**",), "why"))
    assert (frozen.state, waiting.state) == ("granted", "waiting")
    return {
        "hold": (SetHold("olga", held.lease, 9.0, "k1"), SetHold("olga", held.lease, 8.0, "k1")),
        "admission": (
            SetAdmission("t", Admission(5), "k2"),
            SetAdmission("t", Admission(6), "k2"),
        ),
        "unfreeze": (
            Unfreeze("olga", frozen.lease, "k3"),
            Unfreeze("olga", waiting.lease, "k3"),
        ),
        "unfreeze what waits": (
            Unfreeze("olga", waiting.lease, "k4"),
            Unfreeze("olga", held.lease, "k4"),
        ),
        "more-time": (
            AskForTime("session-b", recalled.lease, 9.0, "k5"),
            AskForTime("session-b", recalled.lease, 8.0, "k5"),
        ),
    }


@pytest.mark.parametrize(
    "name", ["hold", "admission", "unfreeze", "unfreeze what waits", "more-time"]
)
def test_sent_twice_it_acts_once(ledger: LedgerDriver, refused: Any, name: str) -> None:
    command, other = requests(ledger)[name]
    first = ledger.answered(command)
    assert ledger.last_events
    state = ledger.state
    assert ledger.answered(command) == first
    assert ledger.last_events == ()
    assert ledger.state is state
    with refused("key-reused"):
        ledger.answered(other)
    assert ledger.state is state


def test_keys_are_remembered_long_enough_and_no_longer(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "a/**")
    for number in range(REMEMBERED + 40):
        ledger.answered(SetHold("olga", held.lease, 9.0, f"k{number}"))
    assert len(ledger.state.operated) == REMEMBERED
    ledger.answered(SetHold("olga", held.lease, 9.0, "k50"))
    assert ledger.last_events == ()


def test_of_two_changes_made_for_the_same_limits_one_is_refused(
    ledger: LedgerDriver, refused: Any
) -> None:
    assert ledger.answered(SetAdmission("t", Admission(5, by="ann"), "a", 0)).admission.version
    with refused("conflict") as caught:
        ledger.answered(SetAdmission("t", Admission(9, by="bo"), "b", 0))
    assert "ann set others meanwhile" in str(caught.value)
    version = ledger.state.admission["t"].version
    ledger.answered(SetAdmission("t", Admission(9, by="bo"), "c", version))
    ledger.answered(SetAdmission("t", Admission(), "d"))
    with refused("conflict") as caught:
        ledger.answered(SetAdmission("t", Admission(7), "e", version))
    assert "they were lifted meanwhile" in str(caught.value)
    ledger.answered(SetAdmission("t", Admission(7), "f", 0))
    assert ledger.state.admission["t"].max_exclusive == 7
