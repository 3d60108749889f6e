"""What operators decide, case by case: freezes, limits, caps and holds (P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.commands import (
    Freeze,
    ReportRescue,
    RevokeLease,
    SetAdmission,
    SetHold,
    Tick,
    Unfreeze,
)
from leasefs.core.intents import OnDirty, Outcome
from leasefs.core.lease import Mode
from leasefs.core.records import Admission, Rescue
from leasefs.core.views import waiters

if TYPE_CHECKING:
    from leasefs.core.answers import AdmissionAnswer, LeaseAnswer
    from leasefs.testing.ledger_driver import LedgerDriver


def freeze(ledger: LedgerDriver, *globs: str, **more: Any) -> LeaseAnswer:
    key = more.pop("key", f"f{ledger.state.seq}")
    return ledger.answered(Freeze("olga", key, "t", globs, "it is being split", **more))


def limit(ledger: LedgerDriver, **limits: Any) -> AdmissionAnswer:
    return ledger.answered(SetAdmission("t", Admission(**limits)))


def test_under_a_freeze_nobody_writes_and_the_reason_is_quoted(
    ledger: LedgerDriver, refused: Any
) -> None:
    frozen = freeze(ledger, "big.py")
    assert (frozen.state, frozen.frozen_by, frozen.note) == ("granted", "olga", "it is being split")
    with refused("conflict") as caught:
        ledger.claim("a", "big.py")
    assert "frozen by olga" in str(caught.value)
    assert "it is being split" in str(caught.value)
    assert ledger.claim("b", "big.py", mode=Mode.SHARED).state == "granted"
    waiting = ledger.claim("a", "*.py", wait=True, priority=100, recall_within_s=0)
    told = [(one.kind, one.reason) for one in waiting.waits_for]
    assert told == [("freeze", frozen.note), ("lease", "")]


def test_a_freeze_recalls_what_is_in_its_way_and_gives_it_back(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "big.py", priority=100)
    earlier = ledger.claim("b", "big.py", wait=True, priority=100)
    frozen = freeze(ledger, "big.py", within_s=5)
    assert frozen.state == "waiting"
    ledger.release("a", held.lease, again=True)
    assert ledger.look(frozen).state == "granted"
    ledger.answered(Unfreeze("olga", frozen.lease))
    first = [one.resumes for one in waiters(ledger.state, "t", ledger.now_s)]
    assert [lease.claim.resumes for lease in ledger.state.leases.values()] == [held.lease]
    assert first == [""]
    assert ledger.look(earlier).state == "waiting"


def test_a_freeze_is_made_once_and_lifted_by_whoever_operates(
    ledger: LedgerDriver, refused: Any
) -> None:
    """P6."""
    frozen = freeze(ledger, "x", key="k")
    assert freeze(ledger, "x", key="k").lease == frozen.lease
    assert ledger.happened == []
    lease = ledger.claim("a", "y")
    with refused("unknown-lease"):
        ledger.answered(Unfreeze("olga", lease.lease))
    assert ledger.answered(Unfreeze("otto", frozen.lease)).state == "ended"


def test_a_freeze_ends_by_itself(ledger: LedgerDriver) -> None:
    frozen = freeze(ledger, "x", ttl_s=10)
    waiting = ledger.claim("a", "x", wait=True)
    ledger.pass_s(10)
    assert ledger.look(frozen).state == "ended"
    assert ledger.look(waiting).state == "granted"


def test_revoking_a_freeze_lifts_it(ledger: LedgerDriver) -> None:
    """Nobody trusts it, so there is nobody to wait for."""
    frozen = freeze(ledger, "x")
    waiting = ledger.claim("a", "x", wait=True)
    ledger.answered(RevokeLease("olga", frozen.lease))
    assert ledger.look(frozen).state == "ended"
    assert ledger.look(waiting).state == "granted"


def test_a_freeze_that_is_given_up_lets_holders_keep_their_leases(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x")
    frozen = freeze(ledger, "x")
    ledger.answered(Unfreeze("olga", frozen.lease))
    assert ledger.happened == ["Withdrawn", "RecallEnded"]
    assert ledger.look(held).recall is None


def test_bad_freezes_are_refused(ledger: LedgerDriver, refused: Any) -> None:
    for more in ({"reason": " "}, {"key": "a b"}, {"territory": ""}, {"within_s": -1}):
        fields = {"reason": "r", "key": "k", "territory": "t", "within_s": 1.0, **more}
        with refused("invalid"):
            ledger.answered(Freeze("olga", globs=("x",), **fields))
    with refused("bad-ttl"):
        ledger.answered(Freeze("olga", "k", "t", ("x",), "r", ttl_s=0.5))


def test_a_limit_makes_claims_wait_in_the_order_of_service(ledger: LedgerDriver) -> None:
    limit(ledger, max_exclusive=1, reason="the runners are slow", by="ci")
    first = ledger.claim("a", "x")
    second = ledger.claim("b", "y", wait=True)
    third = ledger.claim("c", "z", wait=True, priority=1)
    assert [(one.kind, one.agent) for one in second.waits_for] == [("admission", "")]
    assert "the runners are slow" in second.waits_for[0].reason
    assert "set by ci" in second.waits_for[0].reason
    assert second.eta_s is None
    assert ledger.claim("b", "shared", mode=Mode.SHARED).state == "granted"
    ledger.release("a", first.lease)
    assert [ledger.look(one).state for one in (second, third)] == ["waiting", "granted"]
    answer = limit(ledger, max_exclusive=2)
    assert (answer.exclusive, answer.waiting) == (2, 0)


def test_a_refusal_says_that_admission_is_in_the_way(ledger: LedgerDriver, refused: Any) -> None:
    limit(ledger, max_exclusive=0)
    with refused("conflict") as caught:
        ledger.claim("a", "x")
    assert "takes on no more work" in str(caught.value)


def test_a_lapse_makes_place_and_a_return_takes_it(ledger: LedgerDriver) -> None:
    limit(ledger, max_exclusive=1)
    first = ledger.claim("a", "x", ttl_s=10)
    second = ledger.claim("b", "y", wait=True)
    ledger.pass_s(10)
    assert ledger.look(second).state == "granted"
    assert ledger.beat("a", first).renewed, "P5 stands above the limit"
    assert limit(ledger, max_exclusive=1).exclusive == 2


def test_what_has_landed_makes_place(ledger: LedgerDriver) -> None:
    limit(ledger, max_unlanded=1)
    first = ledger.claim("a", "x")
    ledger.note("a", first, "x")
    ledger.release("a", first.lease, on_dirty=OnDirty.KEEP)
    second = ledger.claim("b", "y", wait=True)
    assert "has not landed" in second.waits_for[0].reason
    ledger.settle("a", Outcome.COMMITTED, "x", commit="c0ffee")
    assert ledger.look(second).state == "waiting"
    ledger.settle("a", Outcome.LANDED, "x", commit="c0ffee")
    assert ledger.look(second).state == "granted"


def test_what_is_rescued_makes_place_too(ledger: LedgerDriver) -> None:
    limit(ledger, max_unlanded=1)
    first = ledger.claim("a", "x")
    ledger.note("a", first, "x")
    ledger.release("a", first.lease, on_dirty=OnDirty.KEEP)
    second = ledger.claim("b", "y", wait=True)
    rescue = Rescue(
        id="r1", territory="t", tree="t-1", lease=first.lease, token=1, agent="a", harness="h",
        globs=("x",), ref="refs/leasefs/rescue/r1", commit="c0ffee", paths=1, names=("x",),
        reason="lost", wall_s=1.0, host="host", root="/work",
    )  # fmt: skip
    ledger.answered(ReportRescue("session-a", rescue))
    assert ledger.look(second).state == "granted"


def test_who_fills_the_territory_alone_does_not_wait_for_itself(ledger: LedgerDriver) -> None:
    """P7: nobody else would ever make place."""
    limit(ledger, max_exclusive=1)
    ledger.claim("a", "x")
    assert ledger.claim("a", "y", wait=True).state == "granted"


def test_those_inside_wait_as_long_as_one_of_them_works(ledger: LedgerDriver) -> None:
    limit(ledger, max_exclusive=2)
    ledger.claim("a", "x")
    other = ledger.claim("b", "y")
    more = ledger.claim("a", "z", wait=True)
    assert more.state == "waiting"
    newcomer = ledger.claim("c", "w", wait=True, priority=5)
    last = ledger.claim("b", "v", wait=True)
    assert ledger.look(more).state == "granted", "all inside would have waited for ever"
    assert [ledger.look(one).state for one in (newcomer, last)] == ["waiting", "waiting"]
    assert ledger.look(other).state == "granted"


def test_whom_those_inside_wait_for_is_let_in(ledger: LedgerDriver) -> None:
    """The holder of what they need needs a place itself."""
    reader = ledger.claim("b", "x", mode=Mode.SHARED)
    limit(ledger, max_exclusive=1)
    ledger.claim("a", "y")
    needed = ledger.claim("b", "z", wait=True)
    assert needed.state == "waiting"
    ledger.claim("a", "x", wait=True)
    assert ledger.look(needed).state == "granted"
    assert ledger.look(reader).state == "granted"


def test_who_has_lapsed_is_not_inside_though_nobody_has_looked_yet(ledger: LedgerDriver) -> None:
    """Two leases lapse at once: for the sake of the holder whose is looked at later nobody need be let in."""
    held = [ledger.claim(agent, glob, ttl_s=60) for agent, glob in (("a", "x"), ("b", "y"))]
    wanted = ledger.claim("c", "x", wait=True)
    behind = ledger.claim("b", "x", wait=True)
    limit(ledger, max_unlanded=0)
    for agent in "abc":
        ledger.now_s += 20
        ledger.beat(agent)
    ledger.answered(Tick(tuple(one.lease for one in held)))
    assert ledger.happened == ["Lapsed", "Lapsed"]
    assert [ledger.look(one).state for one in (wanted, behind)] == ["waiting", "waiting"]


def test_a_closed_territory_stays_closed(ledger: LedgerDriver) -> None:
    limit(ledger, max_exclusive=0)
    waiting = ledger.claim("a", "x", wait=True)
    ledger.pass_s(50)
    assert ledger.look(waiting).state == "waiting"


def test_caps_refuse_with_what_to_do(ledger: LedgerDriver, refused: Any) -> None:
    limit(ledger, max_leases=1, max_share=0.2)
    with refused("over-cap") as caught:
        ledger.claim("a", "**", share=0.9)
    assert "90.0%" in str(caught.value)
    with refused("over-cap") as caught:
        ledger.claim("a", "x")
    assert caught.value.details["needs"] == "share"
    held = ledger.claim("a", "x", share=0.1)
    with refused("over-cap") as caught:
        ledger.claim("a", "y", share=0.1, wait=True)
    assert held.lease in str(caught.value)
    assert ledger.happened == ["ClaimRefused"]
    assert ledger.claim("a", "z", mode=Mode.SHARED).state == "granted"


def test_bad_limits_are_refused(ledger: LedgerDriver, refused: Any) -> None:
    for limits in (
        {"max_exclusive": -1},
        {"max_share": 0.0},
        {"max_share": 2.0},
        {"max_hold_s": 0.0},
    ):
        with refused("invalid"):
            limit(ledger, **limits)


def test_a_hold_of_its_own_stands_above_the_cap(ledger: LedgerDriver, refused: Any) -> None:
    held = ledger.claim("a", "x")
    limit(ledger, max_hold_s=10)
    ledger.answered(SetHold("olga", held.lease, 100))
    ledger.pass_s(99)
    assert ledger.look(held).recall is None
    ledger.pass_s(1)
    assert ledger.look(held).recall is not None
    frozen = freeze(ledger, "y")
    ledger.pass_s(50)
    assert ledger.look(frozen).recall is None
    with refused("unknown-lease"):
        ledger.answered(SetHold("olga", frozen.lease, 5))


def test_a_lease_that_comes_back_fills_its_place_again_and_what_its_holder_waits_for_goes_on(
    ledger: LedgerDriver,
) -> None:
    held = ledger.claim("b", "z", ttl_s=10)
    limit(ledger, max_exclusive=0)
    ledger.pass_s(11)
    assert ledger.look(held).state == "lapsed"
    first = ledger.claim("a", "x", wait=True)
    ledger.claim("b", "x", wait=True)
    assert ledger.look(first).state == "waiting", "nobody is inside who waits for it"
    ledger.beat("b", held)
    assert ledger.look(held).state == "granted"
    assert ledger.look(first).state == "granted", "else both would wait for ever"
