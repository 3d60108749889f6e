"""Delegation, case by case: parts lie inside, come back, and end with what they were carved out of (P1, P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.commands import (
    AskForTime,
    Beat,
    DelegateLease,
    Heartbeat,
    RecallLease,
    RevokeLease,
)
from leasefs.core.delegating import MAX_DEPTH
from leasefs.core.events import Expired, Released
from leasefs.core.intents import OnDirty
from leasefs.core.lease import Mode

if TYPE_CHECKING:
    from leasefs.core.answers import LeaseAnswer
    from leasefs.testing.ledger_driver import LedgerDriver


def delegate(
    ledger: LedgerDriver, by: str, lease: LeaseAnswer, glob: str, to: str, **more: Any
) -> LeaseAnswer:
    key = more.pop("key", f"key-{ledger.state.seq}")
    answer = ledger.answered(DelegateLease(f"session-{by}", key, lease.lease, (glob,), to, **more))
    assert answer.parent == lease.lease
    return answer


def test_a_part_is_a_lease_of_its_own(ledger: LedgerDriver) -> None:
    parent = ledger.claim("a", "src/**", ttl_s=60, priority=3)
    child = delegate(ledger, "a", parent, "src/t/**", "b", note="the table")
    assert (child.state, child.agent, child.priority, child.note) == (
        "granted",
        "b",
        3,
        "the table",
    )
    assert child.token > parent.token
    assert ledger.look(parent).delegated == ("src/t/**",)


def test_a_key_delegates_once(ledger: LedgerDriver) -> None:
    """P6: its answer may be lost."""
    parent = ledger.claim("a", "src/**")
    child = delegate(ledger, "a", parent, "src/t", "b", key="k")
    again = delegate(ledger, "a", parent, "src/t", "b", key="k")
    assert (again.lease, ledger.happened) == (child.lease, [])


def test_it_never_widens(ledger: LedgerDriver, refused: Any) -> None:
    parent = ledger.claim("a", "src/*", "docs/**")
    for glob in ("**", "src/**", "src/a/b", "doc[st]/x"):
        with refused("not-contained"):
            delegate(ledger, "a", parent, glob, "b")
    assert delegate(ledger, "a", parent, "src/[ab]", "b").state == "granted"


def test_parts_are_disjoint(ledger: LedgerDriver, refused: Any) -> None:
    parent = ledger.claim("a", "src/**")
    delegate(ledger, "a", parent, "src/t/**", "b")
    with refused("conflict"):
        delegate(ledger, "a", parent, "src/*/x", "c")


def test_ground_held_twice_is_not_given_away_once(ledger: LedgerDriver, refused: Any) -> None:
    """Its holder would go on writing there under the other lease."""
    parent = ledger.claim("a", "src/**")
    ledger.claim("a", "src/t")
    with refused("invalid"):
        delegate(ledger, "a", parent, "src/*", "b")


def test_only_a_live_holder_delegates_and_only_to_others(
    ledger: LedgerDriver, refused: Any
) -> None:
    parent = ledger.claim("a", "src/**", ttl_s=60)
    for to in ("a", "nobody"):
        with refused("invalid"):
            delegate(ledger, "a", parent, "src/t", to)
    with refused("not-holder"):
        delegate(ledger, "b", parent, "src/t", "c")
    shared = ledger.claim("a", "docs/**", mode=Mode.SHARED)
    with refused("invalid"):
        delegate(ledger, "a", shared, "docs/t", "b")
    ledger.answered(RecallLease(parent.lease, 10, by="olga"))
    with refused("invalid"):
        delegate(ledger, "a", parent, "src/t", "b")
    ledger.pass_s(61)
    with refused("lost"):
        delegate(ledger, "a", parent, "src/t", "b")


def test_depth_is_bounded(ledger: LedgerDriver, refused: Any) -> None:
    lease, holder = ledger.claim("a", "s/**"), "a"
    ledger.open("d")
    ledger.open("e")
    for depth, to in zip(range(1, MAX_DEPTH), "bcd", strict=True):
        lease = delegate(ledger, holder, lease, "s/" + "t/" * depth + "**", to)
        holder = to
    with refused("invalid"):
        delegate(ledger, holder, lease, "s/t/t/t/x", "e")


def test_uncommitted_work_is_not_given_away_unless_that_is_meant(
    ledger: LedgerDriver, refused: Any
) -> None:
    parent = ledger.claim("a", "src/**")
    ledger.note("a", parent, "src/t/1")
    assert delegate(ledger, "a", parent, "src/u", "b").state == "granted"
    with refused("dirty"):
        delegate(ledger, "a", parent, "src/t/*", "b")
    assert delegate(ledger, "a", parent, "src/t/*", "b", on_dirty=OnDirty.KEEP).state == "granted"


def test_the_giver_hears_that_it_is_back(ledger: LedgerDriver) -> None:
    parent = ledger.claim("a", "src/**", ttl_s=1800)
    first = delegate(ledger, "a", parent, "src/t", "b")
    second = delegate(ledger, "a", parent, "src/u", "b", ttl_s=10)
    ledger.release("b", first.lease)
    ended = ledger.last_events[0].event
    assert isinstance(ended, Released)
    assert ended.returns_to == "session-a"
    ledger.pass_s(11)
    expired = [one.event for one in ledger.last_events if isinstance(one.event, Expired)]
    assert [(one.lease, one.returns_to) for one in expired] == [(second.lease, "session-a")]
    assert ledger.look(parent).delegated == ()


def test_whoever_gets_it_back_hears_also_when_several_end_together(ledger: LedgerDriver) -> None:
    """A part of a part goes back to what is left above it."""
    parent = ledger.claim("a", "src/**", ttl_s=1800)
    child = delegate(ledger, "a", parent, "src/t/**", "b", ttl_s=10)
    grandchild = delegate(ledger, "b", child, "src/t/u", "c", ttl_s=10)
    ledger.now_s += 11
    ledger.claim("a", "src/t/*")
    expired = [one.event for one in ledger.last_events if isinstance(one.event, Expired)]
    assert {one.lease: one.returns_to for one in expired} == {
        child.lease: "session-a",
        grandchild.lease: "session-a",
    }


def test_a_parent_lasts_as_long_as_its_parts(ledger: LedgerDriver) -> None:
    parent = ledger.claim("a", "src/**", ttl_s=30)
    child = delegate(ledger, "a", parent, "src/t", "b", ttl_s=60)
    for _ in range(4):
        ledger.pass_s(40)
        ledger.beat("b", child)
    assert ledger.look(parent).state == "granted"


def test_a_lapsed_parent_comes_back_by_its_own_heartbeat_only(ledger: LedgerDriver) -> None:
    """Its part's may come in the moment before a timer has looked."""
    parent = ledger.claim("a", "src/**", ttl_s=30)
    child = delegate(ledger, "a", parent, "src/t", "b", ttl_s=30)
    ledger.now_s += 31
    ledger.run(Heartbeat("session-b", (Beat(child.lease, child.token),)))
    assert ledger.look(parent).state == "lapsed"
    assert ledger.beat("a", parent).renewed[0].token == parent.token


def test_a_part_does_not_keep_what_was_revoked(ledger: LedgerDriver) -> None:
    parent = ledger.claim("a", "src/**", ttl_s=30)
    child = delegate(ledger, "a", parent, "src/t", "b")
    ledger.answered(RecallLease(parent.lease, 10, by="olga"))
    ledger.answered(AskForTime("session-b", child.lease, 10))
    ledger.pass_s(10)
    assert ledger.look(parent).state == "revoked"
    assert ledger.beat("b", child).renewed
    assert ledger.look(parent).expires_in_s == 20


def test_revoking_the_parent_revokes_its_parts(ledger: LedgerDriver) -> None:
    parent = ledger.claim("a", "src/**")
    child = delegate(ledger, "a", parent, "src/t/**", "b")
    grandchild = delegate(ledger, "b", child, "src/t/x", "c")
    ledger.answered(RevokeLease("olga", parent.lease))
    states = [ledger.look(one).state for one in (parent, child, grandchild)]
    assert states == ["revoked"] * 3


def test_recalling_the_parent_recalls_its_parts(ledger: LedgerDriver) -> None:
    parent = ledger.claim("a", "src/**")
    child = delegate(ledger, "a", parent, "src/t/**", "b")
    ledger.open("d")
    ledger.claim("d", "src/u", wait=True, priority=1, recall_within_s=10)
    assert ledger.look(child).recall is not None
    assert ledger.look(parent).recall is not None


def test_the_giver_recalls_its_own_part_and_nobody_elses(
    ledger: LedgerDriver, refused: Any
) -> None:
    parent = ledger.claim("a", "src/**")
    child = delegate(ledger, "a", parent, "src/t/**", "b")
    with refused("not-holder"):
        ledger.answered(RecallLease(child.lease, 10, session="session-c"))
    with refused("not-holder"):
        ledger.answered(RecallLease(parent.lease, 10, session="session-a"))
    ledger.answered(RecallLease(child.lease, 10, session="session-a"))
    ledger.release("b", child.lease, again=True)
    assert ledger.happened == ["Released"], "it went back to the lease that it was carved out of"


def test_when_the_parent_ends_its_parts_stand_on_their_own(ledger: LedgerDriver) -> None:
    parent = ledger.claim("a", "src/**")
    child = delegate(ledger, "a", parent, "src/t/**", "b")
    grandchild = delegate(ledger, "b", child, "src/t/x", "c")
    ledger.release("b", child.lease)
    assert ledger.look(grandchild).parent == parent.lease
    ledger.release("a", parent.lease)
    assert (ledger.look(grandchild).state, ledger.look(grandchild).parent) == ("granted", "")
    assert ledger.claim("a", "src/u").state == "granted"
    assert ledger.claim("a", "src/t/x", wait=True).state == "waiting"


def test_a_part_that_would_close_a_cycle_is_refused(ledger: LedgerDriver, refused: Any) -> None:
    """Somebody waits for the ground, whom the new holder waits for."""
    parent = ledger.claim("a", "src/**")
    ledger.claim("c", "y")
    ledger.claim("c", "src/t", wait=True)
    ledger.claim("b", "y", wait=True)
    with refused("deadlock"):
        delegate(ledger, "a", parent, "src/t", "b")
    assert ledger.happened == ["ClaimRefused"], "P11"
    assert delegate(ledger, "a", parent, "src/u", "b").state == "granted"
