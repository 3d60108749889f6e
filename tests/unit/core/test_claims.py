"""Claims, releases and the queue, case by case; the random histories are in tests/model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.lease import Mode
from leasefs.core.views import leases, over_path, waiters

if TYPE_CHECKING:
    from leasefs.testing.ledger_driver import LedgerDriver


def test_disjoint_claims_never_wait(ledger: LedgerDriver) -> None:
    """P7: a disjoint claim never waits."""
    assert ledger.claim("a", "src/**", wait=True).state == "granted"
    assert ledger.claim("b", "src-app/**", wait=True).state == "granted"


def test_refusal_names_holder_globs_and_witness(ledger: LedgerDriver, refused: Any) -> None:
    """P1: the refusal names a path that both match. P10: and who, until when, what next."""
    ledger.claim("a", "src/**/test_*.py", ttl_s=60)
    with refused("conflict") as caught:
        ledger.claim("b", "docs/**", "src/api/**")
    message = str(caught.value)
    for part in ("src/api/**", "src/**/test_*.py", "held by a", "L4", "60 s", "--wait"):
        assert part in message
    assert ledger.happened == ["ClaimRefused"]
    assert [lease.agent for lease in leases(ledger.state, "t", ledger.now_s)] == ["a"]


def test_shared_leases_overlap_and_exclude_a_writer(ledger: LedgerDriver, refused: Any) -> None:
    """P1: many shared leases may overlap, none with an exclusive one."""
    assert ledger.claim("a", "src/**", mode=Mode.SHARED).state == "granted"
    assert ledger.claim("b", "src/x", mode=Mode.SHARED).state == "granted"
    with refused("conflict"):
        ledger.claim("c", "src/x")


def test_several_globs_are_granted_or_queued_whole(ledger: LedgerDriver, refused: Any) -> None:
    """P6: a claim of several globs is granted whole or queued whole."""
    held = ledger.claim("a", "b/**")
    with refused("conflict"):
        ledger.claim("b", "a/**", "b/**", "c/**")
    assert ledger.claim("c", "a/**", "c/**").state == "granted"
    queued = ledger.claim("b", "b/x", "d/**", wait=True)
    assert queued.state == "waiting"
    assert over_path(ledger.state, "t", b"d/1", ledger.now_s)[0].state == "waiting"
    ledger.release("a", held.lease)
    assert ledger.look(queued).state == "granted"


def test_a_key_acts_once_and_answers_the_same(ledger: LedgerDriver, refused: Any) -> None:
    """P6: sent twice, it acts once and answers the same."""
    first = ledger.claim("a", "x", key="k")
    again = ledger.claim("a", "x", key="k")
    assert ledger.happened == []
    assert (again.lease, again.token) == (first.lease, first.token)
    ledger.release("a", first.lease, key="r")
    assert ledger.release("a", first.lease, key="r").state == "ended"
    assert ledger.happened == []
    with refused("key-reused"):
        ledger.claim("a", "y", key="k")


def test_claiming_the_same_again_renews(ledger: LedgerDriver) -> None:
    first = ledger.claim("a", "x", "y", ttl_s=60)
    ledger.pass_s(50)
    again = ledger.claim("a", "y", "x", ttl_s=120)
    assert (again.lease, again.token) == (first.lease, first.token)
    assert again.expires_in_s == 120


def test_a_shorter_ttl_never_moves_the_deadline_back(ledger: LedgerDriver) -> None:
    """P3: the holder may not have heard of the shorter TTL."""
    first = ledger.claim("a", "x", ttl_s=600)
    ledger.claim("a", "x", ttl_s=10)
    ledger.beat("a", first)
    assert ledger.look(first).expires_in_s == 600


def test_waiters_are_served_in_order_and_by_the_release(ledger: LedgerDriver) -> None:
    """P7: served in order of arrival; a release grants the next in the same decision."""
    held = ledger.claim("a", "x")
    second = ledger.claim("b", "x", wait=True)
    third = ledger.claim("c", "*", wait=True)
    assert (second.position, third.position) == (1, 2)
    assert [blocker.agent for blocker in third.waits_for] == ["a", "b"]
    ledger.release("a", held.lease)
    assert ledger.happened == ["Released", "Granted"]
    assert ledger.look(second).state == "granted"
    assert ledger.look(third).state == "waiting"


def test_a_long_queue_is_told_in_short_and_in_order(ledger: LedgerDriver, refused: Any) -> None:
    ledger.claim("a", "x")
    for number in range(40):
        ledger.open(f"w{number}")
        ledger.claim(f"w{number}", "x", wait=True)
    last = ledger.claim("b", "x", wait=True)
    assert last.position == 41
    assert [blocker.agent for blocker in last.waits_for] == ["a", *(f"w{n}" for n in range(15))]
    with refused("conflict") as caught:
        ledger.claim("c", "x")
    assert "41 more in the way" in str(caught.value)


def test_nobody_barges_past_a_waiter(ledger: LedgerDriver, refused: Any) -> None:
    """P7: nobody is overtaken by a later claim that conflicts with theirs."""
    ledger.claim("a", "x/1")
    ledger.claim("b", "x/*", wait=True)
    with refused("conflict") as caught:
        ledger.claim("c", "x/2")
    assert "waits for it before you" in str(caught.value)


def test_priority_is_worth_waiting_time(ledger: LedgerDriver) -> None:
    """P7: order of priority, then arrival; waiting raises priority so that no one starves."""
    held = ledger.claim("a", "x")
    low = ledger.claim("b", "x", wait=True)
    high = ledger.claim("c", "x", wait=True, priority=1)
    assert [item.lease for item in waiters(ledger.state, "t", ledger.now_s)] == [
        high.lease,
        low.lease,
    ]
    ledger.release("c", high.lease)
    ledger.now_s += 301
    late = ledger.claim("c", "x", wait=True, priority=1)
    assert late.position == 2, "five minutes of waiting outweigh one level"
    ledger.release("a", held.lease)
    assert ledger.look(low).state == "granted"


def test_a_cycle_is_refused_at_claim_time_naming_it(ledger: LedgerDriver, refused: Any) -> None:
    """P7: a cycle of waiters is refused at claim time, naming the cycle."""
    ledger.claim("a", "x")
    ledger.claim("b", "y")
    ledger.claim("c", "z")
    ledger.claim("a", "y", wait=True)
    ledger.claim("b", "z", wait=True)
    with refused("deadlock") as caught:
        ledger.claim("c", "x", wait=True)
    assert "c waits for a waits for b waits for c" in str(caught.value)


def test_two_upgraders_do_not_wait_for_each_other(ledger: LedgerDriver, refused: Any) -> None:
    ledger.claim("a", "x", mode=Mode.SHARED)
    ledger.claim("b", "x", mode=Mode.SHARED)
    assert ledger.claim("a", "x", wait=True).state == "waiting"
    with refused("deadlock"):
        ledger.claim("b", "x", wait=True)
