"""Estimates, case by case: the most specific hold times, deadlines, and honest ignorance (P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.commands import Freeze, RecallLease, SetAdmission
from leasefs.core.records import Admission
from leasefs.core.views import waiters

if TYPE_CHECKING:
    from leasefs.core.answers import LeaseAnswer
    from leasefs.testing.ledger_driver import LedgerDriver


def hold(ledger: LedgerDriver, agent: str, glob: str, *seconds: float) -> None:
    for held_s in seconds:
        lease = ledger.claim(agent, glob, ttl_s=3600)
        ledger.now_s += held_s
        ledger.release(agent, lease.lease)


def wait(ledger: LedgerDriver, agent: str, *globs: str, **more: float) -> LeaseAnswer:
    answer = ledger.claim(agent, *globs, wait=True, **more)
    assert answer.state == "waiting"
    return answer


def test_without_hold_times_it_is_unknown(ledger: LedgerDriver) -> None:
    ledger.claim("a", "x")
    assert (wait(ledger, "b", "x").eta_s, ledger.look(wait(ledger, "c", "x")).eta_from) == (None, 0)


def test_the_middle_and_the_spread_of_what_was(ledger: LedgerDriver) -> None:
    hold(ledger, "a", "x", 10, 20, 30, 40, 50)
    ledger.claim("a", "x")
    told = wait(ledger, "b", "x")
    assert (told.eta_low_s, told.eta_s, told.eta_high_s, told.eta_from) == (20, 30, 40, 5)
    ledger.now_s += 15
    later = ledger.look(told)
    assert (later.eta_s, later.eta_from) == (20, 4), (
        "of those that lasted longer than it has by now"
    )


def test_the_most_specific_that_are_enough_count(ledger: LedgerDriver) -> None:
    hold(ledger, "a", "src/x", 10, 10, 10, 10)
    hold(ledger, "a", "docs/x", 100, 100, 100, 100)
    hold(ledger, "b", "docs/x", 50, 50, 50)
    ledger.claim("a", "src/x")
    ledger.claim("a", "docs/x")
    assert wait(ledger, "c", "src/x").eta_s == 10, "this agent on this part"
    assert wait(ledger, "c", "docs/x").eta_s == 100
    ledger.claim("b", "src/y")
    assert wait(ledger, "c", "src/y").eta_s == 50, "too few of its own anywhere: others of its kind"


def test_a_holder_that_holds_longer_than_any_before_is_unknown(ledger: LedgerDriver) -> None:
    hold(ledger, "a", "x", 10, 10, 10, 10)
    ledger.claim("a", "x")
    told = wait(ledger, "b", "x")
    ledger.now_s += 11
    assert (ledger.look(told).eta_s, ledger.look(told).eta_from) == (None, 0)


def test_a_recall_bounds_it_also_when_nothing_else_is_known(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x")
    told = wait(ledger, "b", "x")
    ledger.answered(RecallLease(held.lease, 60, by="olga"))
    assert (ledger.look(told).eta_s, ledger.look(told).eta_high_s) == (60, 60)
    assert ledger.look(told).eta_from == 0, "no hold time says so"


def test_what_a_claim_recalls_counts_in_its_own_estimate(ledger: LedgerDriver) -> None:
    hold(ledger, "a", "x", 100, 100, 100, 100)
    ledger.claim("a", "x")
    assert wait(ledger, "b", "x", priority=1, recall_within_s=7).eta_s == 7
    queued = ledger.last_events[0].event
    assert queued.eta_s == 7


def test_a_cap_on_holds_bounds_it(ledger: LedgerDriver) -> None:
    ledger.answered(SetAdmission("t", Admission(max_hold_s=30)))
    ledger.claim("a", "x")
    assert wait(ledger, "b", "x").eta_high_s == 90, "and a minute to yield"


def test_of_a_revoked_lease_the_rest_of_its_ttl_is_the_most(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x", ttl_s=100)
    told = wait(ledger, "b", "x")
    ledger.answered(RecallLease(held.lease, 0, by="olga"))
    ledger.pass_s(0)
    ledger.now_s += 40
    look = ledger.look(told)
    assert (look.eta_low_s, look.eta_s, look.eta_high_s) == (0, 60, 60)


def test_a_freeze_says_when_it_ends_or_that_nobody_knows(ledger: LedgerDriver) -> None:
    """How long work takes says nothing about it."""
    hold(ledger, "a", "x", 10, 10, 10, 10)
    ledger.answered(Freeze("olga", "k1", "t", ("x",), "why"))
    ledger.answered(Freeze("olga", "k2", "t", ("y",), "why", ttl_s=500))
    assert wait(ledger, "b", "x").eta_s is None
    assert wait(ledger, "c", "y").eta_s == 500


def test_those_before_are_served_one_after_the_other(ledger: LedgerDriver) -> None:
    hold(ledger, "a", "x", 10, 10, 10, 10)
    ledger.claim("a", "x")
    assert wait(ledger, "b", "x").eta_s == 10
    assert wait(ledger, "c", "x").eta_s == 20


def test_those_that_do_not_meet_are_served_at_once(ledger: LedgerDriver) -> None:
    hold(ledger, "a", "x/1", 10, 10, 10, 10)
    ledger.claim("a", "x/*")
    wait(ledger, "b", "x/1")
    assert wait(ledger, "c", "x/2").eta_s == 10
    ledger.open("d")
    assert wait(ledger, "d", "x/*").eta_s == 20


def test_the_queue_as_a_whole_says_what_each_would_say(ledger: LedgerDriver) -> None:
    hold(ledger, "a", "x/1", 10, 20, 30, 40)
    ledger.claim("a", "x/*")
    for number in range(20):
        ledger.open(f"w{number}")
        wait(ledger, f"w{number}", *(("x/1",), ("x/2", "x/1"), ("x/*",))[number % 3])
    wait(ledger, "w19", "x/2", "x/1")
    told = waiters(ledger.state, "t", ledger.now_s)
    assert len(told) == 21
    assert told == [ledger.look(one) for one in told]


def test_a_long_queue_is_estimated_too(ledger: LedgerDriver) -> None:
    hold(ledger, "a", "x", 10, 10, 10, 10)
    ledger.claim("a", "x")
    for number in range(60):
        ledger.open(f"w{number}")
        last = wait(ledger, f"w{number}", "x")
    assert last.eta_s == 600
    assert waiters(ledger.state, "t", ledger.now_s)[-1].eta_s == 600


def give_way(ledger: LedgerDriver, idle_s: float, after_s: float) -> None:
    """`a` holds what it does not need, and lets go soon after `b` asks for it; then `b` holds it for 7 s."""
    lease = ledger.claim("a", "x", ttl_s=3600)
    ledger.now_s += idle_s
    waiting = wait(ledger, "b", "x")
    ledger.now_s += after_s
    ledger.release("a", lease.lease)
    ledger.now_s += 7
    ledger.release("b", waiting.lease)


def test_a_holder_that_gives_way_when_asked_is_told_from_one_that_does_not(
    ledger: LedgerDriver,
) -> None:
    for idle_s in (5, 100, 400, 30):
        give_way(ledger, idle_s, 2)
    ledger.claim("a", "x", ttl_s=3600)
    ledger.now_s += 50
    told = wait(ledger, "b", "x")
    assert (told.eta_s, told.eta_from) == (2, 4), "from the first waiter on"
    ledger.now_s += 1
    assert ledger.look(told).eta_s == 1


def test_who_stands_between_holds_as_long_as_one_that_is_waited_for(ledger: LedgerDriver) -> None:
    for _ in range(4):
        lease = ledger.claim("a", "x", ttl_s=3600)
        first, second = wait(ledger, "b", "x"), wait(ledger, "c", "x")
        ledger.now_s += 10
        ledger.release("a", lease.lease)
        ledger.now_s += 3  # `c` waits for `b` from the grant on
        ledger.release("b", first.lease)
        ledger.now_s += 100  # and nobody for `c`
        ledger.release("c", second.lease)
        hold(ledger, "b", "x", 500)
    ledger.claim("a", "x", ttl_s=3600)
    wait(ledger, "b", "x")
    assert wait(ledger, "c", "x").eta_s == 13
