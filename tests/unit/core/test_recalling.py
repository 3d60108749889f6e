"""Recalls, case by case: who may ask, by when, and what comes back (P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.commands import (
    AskForTime,
    DelegateLease,
    DowngradeLease,
    Heartbeat,
    RecallLease,
    SetAdmission,
    SetHold,
    StartLedger,
)
from leasefs.core.events import ClaimRefused, Granted, Queued, Recalled
from leasefs.core.lease import Mode
from leasefs.core.records import Admission

if TYPE_CHECKING:
    from leasefs.core.answers import LeaseAnswer
    from leasefs.core.records import Recall
    from leasefs.testing.ledger_driver import LedgerDriver


def recall_of(ledger: LedgerDriver, lease: LeaseAnswer) -> Recall | None:
    return ledger.state.leases[lease.lease].recall


def test_a_higher_priority_recalls_and_an_equal_one_waits(ledger: LedgerDriver) -> None:
    """P7: equal priority never recalls."""
    low = ledger.claim("a", "x")
    same = ledger.claim("b", "x", wait=True, recall_within_s=10)
    assert recall_of(ledger, low) is None
    high = ledger.claim("c", "x", wait=True, priority=1, recall_within_s=10)
    recall = recall_of(ledger, low)
    assert recall is not None
    assert (recall.by, recall.deadline_s, recall.claims) == ("c", ledger.now_s + 10, (high.lease,))
    assert same.lease not in recall.claims
    told = ledger.beat("a", low).renewed[0].recall
    assert told is not None
    assert (told.yields_in_s, told.may_ask_for_s, told.cold) == (10, 10, False)
    assert "c claimed x" in told.reason


def test_zero_seconds_stop_writes_cold(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    ledger.claim("b", "x", wait=True, priority=100, recall_within_s=0)
    recall = recall_of(ledger, low)
    assert recall is not None
    assert recall.cold
    ledger.pass_s(0)
    assert ledger.look(low).state == "revoked"


def test_who_yields_is_first_when_it_is_over(ledger: LedgerDriver) -> None:
    """P7: the ground comes back behind those that it was recalled for, and before those that came later."""
    low = ledger.claim("a", "x")
    later = ledger.claim("b", "x", wait=True)
    high = ledger.claim("c", "x", wait=True, priority=1, recall_within_s=10)
    ledger.release("a", low.lease, again=True)
    assert ledger.happened[:2] == ["Released", "Queued"]
    assert ledger.look(high).state == "granted"
    ledger.release("c", high.lease)
    granted = [one.event for one in ledger.last_events if isinstance(one.event, Granted)]
    assert [(one.claim.agent, one.claim.resumes) for one in granted] == [("a", low.lease)]
    assert ledger.look(later).state == "waiting"


def test_past_the_deadline_it_is_revoked_and_comes_back_too(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    high = ledger.claim("b", "x", wait=True, priority=1, recall_within_s=10)
    ledger.pass_s(9)
    assert ledger.look(low).state == "granted"
    ledger.pass_s(1)
    assert ledger.look(low).state == "revoked"
    assert ledger.look(high).state == "waiting", "P3: its holder may still write"
    ledger.run(Heartbeat("session-a", (), (low.lease,)))
    assert ledger.look(high).state == "granted"
    back = [claim for claim in ledger.state.waiters.values() if claim.resumes == low.lease]
    assert [claim.agent for claim in back] == ["a"]


def test_who_cannot_come_back_is_told(ledger: LedgerDriver) -> None:
    """P7: a claim that would close a cycle is refused, and a lease that comes back is one."""
    low, other = ledger.claim("a", "x"), ledger.claim("a", "y")
    ledger.claim("b", "y", wait=True)
    high = ledger.claim("b", "x", wait=True, priority=1, recall_within_s=10)
    ledger.release("a", low.lease, again=True)
    assert ledger.look(high).state == "granted"
    told = [one.event for one in ledger.last_events if isinstance(one.event, ClaimRefused)]
    assert [(one.session, one.code) for one in told] == [("session-a", "deadlock")]
    assert low.lease in told[0].message
    assert other.state == "granted"


def test_more_time_is_given_once_and_within_a_bound(ledger: LedgerDriver, refused: Any) -> None:
    low = ledger.claim("a", "x")
    with refused("invalid"):
        ledger.answered(AskForTime("session-a", low.lease, 5))
    ledger.claim("b", "x", wait=True, priority=1, recall_within_s=10)
    for extra_s in (0, 11):
        with refused("invalid"):
            ledger.answered(AskForTime("session-a", low.lease, extra_s))
    with refused("not-holder"):
        ledger.answered(AskForTime("session-c", low.lease, 5))
    ledger.answered(AskForTime("session-a", low.lease, 10))
    with refused("invalid"):
        ledger.answered(AskForTime("session-a", low.lease, 1))
    ledger.pass_s(19)
    assert ledger.look(low).state == "granted"
    ledger.pass_s(1)
    assert ledger.look(low).state == "revoked"
    with refused("lost"):
        ledger.answered(AskForTime("session-a", low.lease, 1))


def test_of_two_recalls_the_earlier_deadline_counts(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    first = ledger.claim("b", "x", wait=True, priority=1, recall_within_s=30)
    second = ledger.claim("c", "x", wait=True, priority=2, recall_within_s=10)
    recall = recall_of(ledger, low)
    assert recall is not None
    assert recall.deadline_s == ledger.now_s + 10
    assert recall.claims == (first.lease, second.lease)


def test_it_ends_when_nobody_asks_any_more(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    first = ledger.claim("b", "x", wait=True, priority=1, recall_within_s=30)
    second = ledger.claim("c", "x", wait=True, priority=2, recall_within_s=10)
    ledger.release("b", first.lease)
    assert recall_of(ledger, low) is not None
    ledger.release("c", second.lease)
    assert ledger.happened == ["Withdrawn", "RecallEnded"]
    assert recall_of(ledger, low) is None
    ledger.pass_s(60)
    assert ledger.look(low).state == "granted"


def test_an_operators_recall_does_not_end_with_a_waiter(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    high = ledger.claim("b", "x", wait=True, priority=1, recall_within_s=30)
    ledger.answered(RecallLease(low.lease, 600, reason="moving", by="olga"))
    ledger.release("b", high.lease)
    recall = recall_of(ledger, low)
    assert recall is not None
    assert recall.claims == ()
    assert recall.deadline_s == ledger.now_s + 30, "a later deadline does not put off the first"


def test_what_an_operator_recalled_comes_back_with_a_new_place(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    waiting = ledger.claim("b", "x", wait=True)
    ledger.pass_s(1)
    ledger.answered(RecallLease(low.lease, 600, by="olga"))
    ledger.release("a", low.lease, again=True)
    assert ledger.look(waiting).state == "granted"
    assert [claim.resumes for claim in ledger.state.waiters.values()] == [low.lease]


def test_a_lease_that_is_granted_ahead_of_a_recalling_claim_is_recalled_too(
    ledger: LedgerDriver,
) -> None:
    """A background loop that comes back must not keep a person waiting, however old its claim is."""
    loop = ledger.claim("a", "x", priority=-20, ttl_s=86400)
    ledger.now_s += 86_000
    ledger.beat("a", loop)
    for agent in "bc":
        ledger.open(agent, "-2", replace=True)
    first = ledger.claim("b-2", "x", wait=True, priority=100, recall_within_s=0)
    ledger.release("a", loop.lease, again=True)
    ledger.now_s += 1
    second = ledger.claim("c-2", "x", wait=True, priority=100, recall_within_s=0)
    ledger.release("b-2", first.lease)
    for lease in ledger.state.leases.values():
        assert lease.claim.id == second.lease or lease.recall is not None


def test_a_lapsed_lease_that_comes_back_is_recalled(ledger: LedgerDriver) -> None:
    """P5 gives it back; who waits for more than it still asks for it."""
    low = ledger.claim("a", "x", ttl_s=10)
    ledger.claim("b", "y")
    ledger.pass_s(11)
    high = ledger.claim("c", "x", "y", wait=True, priority=1, recall_within_s=30)
    assert recall_of(ledger, low) is None
    ledger.beat("a", low)
    recall = recall_of(ledger, low)
    assert recall is not None
    assert recall.claims == (high.lease,)


def test_again_without_a_recall_is_a_claim_too(ledger: LedgerDriver) -> None:
    """The recall may have ended just before its holder yielded."""
    low = ledger.claim("a", "x")
    high = ledger.claim("b", "x", wait=True, priority=1, recall_within_s=30)
    ledger.release("b", high.lease)
    ledger.release("a", low.lease, again=True)
    assert ledger.happened == ["Released", "Queued", "Granted"]
    assert isinstance(ledger.last_events[1].event, Queued)
    assert ledger.last_events[1].event.claim.resumes == low.lease


def test_a_part_has_the_time_that_its_holder_was_given(ledger: LedgerDriver) -> None:
    parent = ledger.claim("a", "x/**")
    child = ledger.answered(DelegateLease("session-a", "d", parent.lease, ("x/1",), "b"))
    ledger.answered(RecallLease(parent.lease, 10, by="olga"))
    ledger.answered(AskForTime("session-b", child.lease, 10))
    ledger.pass_s(10)
    assert ledger.look(parent).state == "revoked"
    assert ledger.look(child).state == "granted"
    ledger.pass_s(10)
    assert ledger.look(child).state == "revoked"


def test_what_is_shared_now_is_not_recalled_by_who_can_share_it(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    ledger.claim("b", "y", priority=2)
    ledger.claim("c", "x", "y", mode=Mode.SHARED, wait=True, priority=1, recall_within_s=5)
    assert recall_of(ledger, low) is not None
    ledger.answered(DowngradeLease("session-a", "d", low.lease))
    assert "RecallEnded" in ledger.happened
    assert recall_of(ledger, low) is None


def test_a_cap_recalls_and_an_operator_may_lift_it(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    ledger.answered(SetAdmission("t", Admission(max_hold_s=100)))
    assert ledger.look(low).hold_ends_in_s == 100
    ledger.pass_s(100)
    recall = recall_of(ledger, low)
    assert recall is not None
    assert "held for 100 s" in recall.reason
    ledger.answered(SetHold("olga", low.lease, 500))
    assert ledger.happened == ["HoldSet", "RecallEnded"]
    ledger.pass_s(499)
    assert recall_of(ledger, low) is None
    ledger.pass_s(1)
    assert recall_of(ledger, low) is not None


def test_a_hold_does_not_close_a_cycle(ledger: LedgerDriver) -> None:
    """Somebody may have begun to wait because the cap was about to end the lease."""
    low = ledger.claim("a", "x")
    ledger.answered(SetAdmission("t", Admission(max_hold_s=100)))
    ledger.pass_s(100)
    ledger.claim("b", "y")
    ledger.claim("a", "y", wait=True)
    assert ledger.claim("b", "x", wait=True).state == "waiting"
    ledger.answered(SetHold("olga", low.lease, 500))
    assert recall_of(ledger, low) is not None


@pytest.mark.parametrize("within_s", [-1.0, 3601.0, float("nan")])
def test_bad_deadlines_are_refused(ledger: LedgerDriver, refused: Any, within_s: float) -> None:
    low = ledger.claim("a", "x")
    with refused("invalid"):
        ledger.answered(RecallLease(low.lease, within_s, by="olga"))
    with refused("invalid"):
        ledger.claim("b", "x", wait=True, priority=1, recall_within_s=within_s)


def test_who_recalls_has_to_wait(ledger: LedgerDriver, refused: Any) -> None:
    ledger.claim("a", "x")
    with refused("invalid"):
        ledger.claim("b", "x", priority=1, recall_within_s=5)


def test_a_restart_keeps_recalls(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    ledger.claim("b", "x", wait=True, priority=1, recall_within_s=5)
    ledger.run(StartLedger("s", "boot"))
    assert recall_of(ledger, low) is not None
    assert not any(isinstance(one.event, Recalled) for one in ledger.last_events)


def test_a_shell_that_never_hears_of_it_keeps_no_ground_closed(ledger: LedgerDriver) -> None:
    """P7: a recall is over at its deadline. No mount trusts a shell's lease, so it need not run out first (P3)."""
    ledger.open("d", kind="shell")
    low = ledger.claim("d", "x", ttl_s=1800)
    high = ledger.claim("b", "x", wait=True, priority=1, recall_within_s=10)
    ledger.pass_s(9)
    assert ledger.look(high).state == "waiting"
    ledger.pass_s(1)
    assert (ledger.look(high).state, ledger.look(low).state) == ("granted", "ended")
    (back,) = ledger.state.waiters.values()
    assert back.resumes == low.lease
    ledger.release("b", high.lease)
    assert back.id in ledger.state.leases


def test_a_recall_without_a_reason_says_just_that(ledger: LedgerDriver) -> None:
    low = ledger.claim("a", "x")
    ledger.answered(RecallLease(low.lease, 10.0, by="ann"))
    recall = recall_of(ledger, low)
    assert recall is not None
    assert (recall.by, recall.reason) == ("ann", "no reason given")
