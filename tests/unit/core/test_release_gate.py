"""The release gate, hand-off notes, rescues, and what the next holder is told (P9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.answers import Inherited, LeaseAnswer
from leasefs.core.commands import DropRescue, EndSession, ReportRescue, SetAdmission
from leasefs.core.inheriting import NAMES_TOLD_LENGTH, RESCUES_TOLD
from leasefs.core.intents import NAMES_KEPT, OnDirty, Outcome, Require
from leasefs.core.records import Admission, Rescue

if TYPE_CHECKING:
    from leasefs.testing.ledger_driver import LedgerDriver


def told(ledger: LedgerDriver, lease: LeaseAnswer) -> Inherited:
    inherits = ledger.look(lease).inherits
    assert inherits is not None
    return inherits


def rescue_of(lease: LeaseAnswer, *names: str, id_: str = "", **more: Any) -> Rescue:
    fields: dict[str, Any] = {
        "id": id_ or lease.lease,
        "territory": "t",
        "tree": "t-1",
        "lease": lease.lease,
        "token": lease.token,
        "agent": lease.agent,
        "harness": "shell",
        "globs": lease.globs,
        "ref": f"refs/leasefs/rescue/{id_ or lease.lease}",
        "commit": "c1",
        "paths": len(names),
        "names": names,
        "reason": "expired",
        "wall_s": 5.0,
        **more,
    }
    return Rescue(**fields)


def test_a_dirty_lease_is_not_released_and_the_refusal_says_which_paths(
    ledger: LedgerDriver, refused: Any
) -> None:
    """P9: no lease ends with work unseen. P10: what, and what to do next."""
    lease = ledger.claim("a", "src/**")
    ledger.note("a", lease, "src/3", "src/1", "src/2", "src/4")
    with refused("dirty") as caught:
        ledger.release("a", lease.lease)
    message = str(caught.value)
    for part in (lease.lease, "4 paths", "'src/1', 'src/2', 'src/3' and 1 more", "--rescue"):
        assert part in message
    assert caught.value.details["paths"] == ["src/1", "src/2", "src/3", "src/4"]
    assert ledger.happened == ["ReleaseRefused"]
    assert ledger.look(lease).state == "granted"
    ledger.settle("a", Outcome.COMMITTED, "src/1", "src/2", "src/3", "src/4", commit="c")
    assert ledger.release("a", lease.lease).state == "ended"
    assert len(ledger.intents(agent="a")) == 4, "committed, and still to land"


@pytest.mark.parametrize(
    ("require", "stands", "passes"),
    [
        (Require.NONE, "dirty", True),
        (Require.COMMITTED, "dirty", False),
        (Require.COMMITTED, "committed", True),
        (Require.PUSHED, "dirty", False),
        (Require.PUSHED, "committed", False),
        (Require.PUSHED, "landed", True),
    ],
)
def test_each_policy_asks_for_its_own(
    ledger: LedgerDriver, refused: Any, require: Require, stands: str, passes: bool
) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x")
    if stands != "dirty":
        ledger.settle("a", Outcome(stands), "x", commit="c" * (stands == "committed"))
    if passes:
        ledger.release("a", lease.lease, require=require)
    else:
        with refused("dirty"):
            ledger.release("a", lease.lease, require=require)


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ({"on_dirty": OnDirty.KEEP}, "kept"),
        ({"on_dirty": OnDirty.FORCE}, "forced"),
        ({"on_dirty": OnDirty.HAND_ON}, "handed-on"),
        ({"require": Require.NONE}, "kept"),
    ],
)
def test_what_is_left_behind_stays_listed_and_is_logged(
    ledger: LedgerDriver, more: dict[str, Any], left: str
) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x")
    ledger.release("a", lease.lease, **more)
    assert ledger.last_events[0].event.left == left
    assert [(one.agent, one.handed_on) for one in ledger.intents()] == [("a", left == "handed-on")]


def test_heirs_are_told_of_what_nobody_holds_and_nobody_handed_on(ledger: LedgerDriver) -> None:
    ways = {"held": None, "kept": OnDirty.KEEP, "handed-on": OnDirty.HAND_ON}
    for path, on_dirty in ways.items():
        lease = ledger.claim("a", path)
        ledger.note("a", lease, path)
        if on_dirty is not None:
            ledger.release("a", lease.lease, on_dirty=on_dirty)
    assert [one.path for one in ledger.intents(unkept=True)] == ["kept"]


def test_what_is_reported_after_it_was_handed_on_was_not(ledger: LedgerDriver) -> None:
    """An heir keeps it first then: nobody who comes next can have read it."""
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x")
    ledger.release("a", lease.lease, on_dirty=OnDirty.HAND_ON)
    ledger.note("a", lease, "y")
    assert [one.handed_on for one in ledger.intents()] == [False, False]


def test_a_clean_release_leaves_nothing(ledger: LedgerDriver) -> None:
    for on_dirty in OnDirty:
        lease = ledger.claim("a", "x")
        ledger.release("a", lease.lease, on_dirty=on_dirty)
        assert ledger.last_events[0].event.left == ""


def test_an_ended_session_leaves_its_work_listed(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x")
    ledger.run(EndSession("session-a"))
    assert ledger.last_events[0].event.left == "kept"


def test_other_leases_and_other_agents_are_not_in_the_way(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "x")
    other = ledger.claim("a", "y")
    ledger.note("a", other, "y")
    ledger.note("b", lease, "x")
    ledger.release("a", lease.lease)


def test_a_rescue_ends_the_intents_that_it_contains(ledger: LedgerDriver, refused: Any) -> None:
    """P9: released once the bytes are safe, and not before."""
    lease = ledger.claim("a", "src/**")
    ledger.note("a", lease, "src/1", "src/2", "src/fifo")
    with refused("dirty"):
        ledger.release("a", lease.lease, on_dirty=OnDirty.RESCUED)
    answer = ledger.answered(
        ReportRescue("session-a", rescue_of(lease, "src/1", "src/2"), ("src/1", "src/2"))
    )
    assert (answer.ended, answer.rescue.by) == (2, "a")
    with refused("dirty") as caught:
        ledger.release("a", lease.lease, on_dirty=OnDirty.RESCUED)
    assert "'src/fifo'" in str(caught.value)
    assert "in no rescue" in str(caught.value)
    ledger.settle("a", Outcome.CLEAN, "src/fifo")
    ledger.release("a", lease.lease, on_dirty=OnDirty.RESCUED)
    assert ledger.last_events[0].event.left == "rescued"


def test_without_saying_more_a_rescue_contains_what_it_names(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "**")
    ledger.note("a", lease, *(f"x{number:03}" for number in range(60)))
    names = tuple(f"x{number:03}" for number in range(NAMES_KEPT))
    ledger.answered(ReportRescue("session-a", rescue_of(lease, *names, paths=60)))
    assert len(ledger.intents()) == 10
    rest = tuple(f"x{number:03}" for number in range(NAMES_KEPT, 60))
    again = ledger.answered(ReportRescue("session-a", rescue_of(lease, *names, paths=60), rest))
    assert again.ended == 10
    assert ledger.intents() == []


def test_one_id_is_one_snapshot(ledger: LedgerDriver, refused: Any) -> None:
    lease = ledger.claim("a", "x")
    ledger.answered(ReportRescue("session-a", rescue_of(lease, "x")))
    ledger.answered(ReportRescue("session-b", rescue_of(lease, "x")))
    assert ledger.happened == [], "told twice is told once"
    with refused("invalid"):
        ledger.answered(ReportRescue("session-a", rescue_of(lease, "x", commit="c2")))
    ledger.answered(
        ReportRescue("session-a", rescue_of(lease, "x", commit="c2", id_=f"{lease.lease}-2"))
    )


def test_a_rescue_whose_ground_nobody_remembers_lies_where_its_paths_do(
    ledger: LedgerDriver,
) -> None:
    lease = LeaseAnswer("L99", "ended", agent="gone", token=99)
    ledger.answered(ReportRescue("session-b", rescue_of(lease, "a/1", "b/2")))
    assert told(ledger, ledger.claim("c", "b/**")).rescues[0].lease == "L99"
    assert not told(ledger, ledger.claim("c", "c/**")).rescues


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "../x"},
        {"id": "x" * 81},
        {"agent": ""},
        {"agent": "a/b"},
        {"tree": ""},
        {"territory": "other"},
        {"ref": ""},
        {"commit": ""},
        {"names": ("../x",)},
        {"globs": ("/x",)},
        {"globs": ("x",) * 257},
        {"paths": -1},
    ],
)
def test_bad_rescues_change_nothing(ledger: LedgerDriver, wrong: dict[str, Any]) -> None:
    lease = ledger.claim("a", "x")
    before = ledger.state
    decision = ledger.run(ReportRescue("session-a", rescue_of(lease, "x", **wrong)))
    assert decision.error is not None
    assert ledger.state is before


def test_the_next_holder_is_told_of_rescues_and_of_uncommitted_work(ledger: LedgerDriver) -> None:
    """P9: the next holder is told what it inherits, and only of its ground."""
    first = ledger.claim("a", "src/**")
    ledger.note("a", first, "src/1", "src/2")
    ledger.note("a", first, "src/done")
    ledger.settle("a", Outcome.COMMITTED, "src/done", commit="c")
    ledger.answered(ReportRescue("session-a", rescue_of(first, "src/2")))
    ledger.run(EndSession("session-a"))
    second = told(ledger, ledger.claim("b", "src/*"))
    assert [one.path for one in second.uncommitted] == ["src/1"]
    assert [one.id for one in second.rescues] == [first.lease]
    assert told(ledger, ledger.claim("c", "docs/**")) == Inherited()
    ledger.answered(DropRescue("session-c", first.lease))
    assert ledger.answered(DropRescue("session-c", first.lease)).dropped is False


def test_a_long_heritage_is_told_in_short(ledger: LedgerDriver) -> None:
    first = ledger.claim("a", "**")
    ledger.note("a", first, *(f"x{number:03}" for number in range(200)))
    ledger.run(EndSession("session-a"))
    second = told(ledger, ledger.claim("b", "**"))
    assert second.uncommitted_count == 200
    assert [one.path for one in second.uncommitted] == [f"x{n:03}" for n in range(NAMES_KEPT)]


def test_rescues_without_number_are_told_in_short(ledger: LedgerDriver) -> None:
    """Whoever reports them makes each later claim's answer longer, and there is no end to what may be reported."""
    first = ledger.claim("a", "src/**")
    names = tuple(f"src/{'n' * 200}{number:02}" for number in range(NAMES_KEPT))
    for number in range(RESCUES_TOLD + 20):
        rescue = rescue_of(first, *names, id_=f"r-{number:03}", wall_s=float(number), paths=50)
        ledger.answered(ReportRescue("session-a", rescue, ()))
    ledger.run(EndSession("session-a"))
    second = told(ledger, ledger.claim("b", "src/x"))
    assert second.rescues_count == RESCUES_TOLD + 20
    newest = [f"r-{number:03}" for number in range(RESCUES_TOLD + 19, 19, -1)]
    assert [one.id for one in second.rescues] == newest
    assert second.rescues[0].names == names
    assert second.rescues[-1].names == ()
    assert sum(len(name) for one in second.rescues for name in one.names) <= NAMES_TOLD_LENGTH
    assert {one.paths for one in second.rescues} == {50}


def test_a_note_goes_to_the_next_holder_of_the_ground_once(ledger: LedgerDriver) -> None:
    first = ledger.claim("a", "src/**")
    waiting = ledger.claim("b", "src/x", wait=True)
    ledger.release("a", first.lease, note="parser half done")
    assert ledger.happened == ["Released", "Granted"]
    note = told(ledger, waiting).note
    assert note is not None
    assert (note.text, note.agent, note.lease) == ("parser half done", "a", first.lease)
    assert told(ledger, ledger.claim("c", "src/y")).note is None


@pytest.mark.parametrize("limited", [False, True])
def test_a_note_goes_to_all_who_have_the_ground_by_its_release(
    ledger: LedgerDriver, limited: bool
) -> None:
    """P7: a release and the grants to the next waiters are one decision, and each of them is told what was left."""
    if limited:
        ledger.run(SetAdmission("t", Admission(max_exclusive=5)))
    first = ledger.claim("a", "src/**")
    one, two = (ledger.claim("b", f"src/{name}", wait=True) for name in "xy")
    ledger.release("a", first.lease, note="parser half done", commit="c0ffee")
    for waiting in (one, two):
        note = told(ledger, waiting).note
        assert note is not None
        assert (note.text, note.commit, note.lease) == ("parser half done", "c0ffee", first.lease)
    assert told(ledger, ledger.claim("c", "src/z")).note is None


def test_several_notes_come_together_newest_first(ledger: LedgerDriver) -> None:
    for glob in ("a", "b", "c"):
        lease = ledger.claim("a", glob)
        ledger.now_s += 10
        ledger.release("a", lease.lease, note=f"about {glob}")
    heritage = told(ledger, ledger.claim("b", "a", "b"))
    assert heritage.note is not None
    assert heritage.note.text == "about b"
    assert [note.text for note in heritage.earlier_notes] == ["about a"]


def test_bad_notes_are_refused(ledger: LedgerDriver, refused: Any) -> None:
    lease = ledger.claim("a", "x")
    waiting = ledger.claim("b", "x", wait=True)
    with refused("invalid"):
        ledger.release("a", lease.lease, note="n" * 2001)
    with refused("invalid"):
        ledger.release("b", waiting.lease, note="nothing to hand over")
    assert ledger.release("b", waiting.lease).state == "ended"


def test_the_loser_of_a_lease_is_told_where_its_work_is(ledger: LedgerDriver) -> None:
    """P5, P9: fenced, and told where the bytes are."""
    lease = ledger.claim("a", "x", ttl_s=10)
    ledger.note("a", lease, "x")
    ledger.pass_s(11)
    ledger.claim("b", "x")
    ledger.answered(ReportRescue("session-b", rescue_of(lease, "x")))
    (lost,) = ledger.beat("a", lease).lost
    assert "taken by b" in lost.reason
    assert f"leasefs rescue show {lease.lease}" in lost.reason


def test_work_off_its_leases_ground_is_found_where_it_lies(ledger: LedgerDriver) -> None:
    """A replaced session's lease still stands, and what its agent tells of it now is a fact all the same."""
    lease = ledger.claim("a", "x")
    ledger.open("a", "-2", replace=True)
    ledger.note("a-2", lease, "y", "d/")
    assert [one.path for one in told(ledger, ledger.claim("b", "y")).uncommitted] == ["y"]
    assert [one.path for one in told(ledger, ledger.claim("c", "d/e")).uncommitted] == ["d/"]
