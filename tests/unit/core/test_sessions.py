"""Sessions: one per agent, dead, silent, replaced and ended ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.commands import (
    EndSession,
)
from leasefs.core.lease import SESSION_TTL_S
from leasefs.core.renewal import KEEP_LAPSED_S, session_due_at_s
from leasefs.core.views import sessions

if TYPE_CHECKING:
    from leasefs.testing.ledger_driver import LedgerDriver


def test_a_second_session_of_an_agent_is_refused_unless_asked_for(
    ledger: LedgerDriver, refused: Any
) -> None:
    held = ledger.claim("a", "x", ttl_s=600)
    busy = ledger.open("a", "-two")
    assert busy.error is not None
    assert busy.error.code == "agent-busy"
    assert ledger.open("a", "-two", replace=True).error is None
    with refused("conflict"):
        ledger.claim("b", "x")
    assert [item.session for item in sessions(ledger.state, "t", ledger.now_s)] == [
        "session-a-two",
        "session-b",
        "session-c",
    ]
    ledger.pass_s(601)
    assert ledger.look(held).state == "ended"


def test_a_dead_predecessor_leaves_its_ground_at_once(ledger: LedgerDriver) -> None:
    ledger.claim("a", "x", ttl_s=600)
    assert ledger.open("a", "-two", predecessor_dead=True).error is None
    assert ledger.claim("b", "x").state == "granted"


def test_a_silent_session_leaves_the_queue_and_may_be_succeeded(ledger: LedgerDriver) -> None:
    ledger.claim("a", "x", ttl_s=600)
    waiting = ledger.claim("b", "x", wait=True)
    ledger.pass_s(SESSION_TTL_S)
    assert ledger.look(waiting).state == "ended"
    assert ledger.open("b", "-two").error is None


def test_a_sessions_own_requests_are_signs_of_life(ledger: LedgerDriver) -> None:
    for _ in range(5):
        held = ledger.claim("a", "x")
        ledger.pass_s(SESSION_TTL_S / 2)
        ledger.release("a", held.lease)
        ledger.pass_s(SESSION_TTL_S / 3)
    assert ledger.open("a", "-two").error is not None


def test_sessions_and_lapsed_leases_are_forgotten_after_long(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x", ttl_s=10)
    ledger.pass_s(11)
    ledger.pass_s(KEEP_LAPSED_S)
    ledger.pass_s(1)
    assert ledger.look(held).state == "ended"
    assert sessions(ledger.state, None, ledger.now_s) == []
    assert session_due_at_s(ledger.state, "session-a", ledger.now_s) is None


def test_ending_a_session_frees_everything(ledger: LedgerDriver, refused: Any) -> None:
    ledger.claim("a", "x")
    ledger.claim("a", "y")
    waiting = ledger.claim("b", "x", "y", wait=True)
    ledger.run(EndSession("session-a"))
    assert ledger.look(waiting).state == "granted"
    with refused("session-ended"):
        ledger.claim("a", "z")
