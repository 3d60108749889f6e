"""Intents and foreign writes, case by case; the random histories are in tests/model (P8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.commands import (
    EndSession,
    ForeignReport,
    Note,
    ReportForeignWrites,
    ReportIntents,
    ReportRescue,
    SettleIntents,
    Settlement,
)
from leasefs.core.globs import globs_of
from leasefs.core.intents import MAX_NOTES, ForeignChange, IntentKind, OnDirty, Outcome
from leasefs.core.lease import Mode
from leasefs.core.records import Holder, Intent, Rescue
from leasefs.core.uncommitted import Uncommitted, work_id

if TYPE_CHECKING:
    from leasefs.testing.ledger_driver import LedgerDriver


def test_an_intent_says_who_changed_what_where_and_when(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "src/**")
    note = Note("src/\udce9", IntentKind.CREATE, lease.lease, lease.token, 17.5, 42, "vi", 9)
    ledger.answered(ReportIntents("session-a", "t-1", "h1", "/home/a/r", (note,)))
    (found,) = ledger.intents()
    assert (found.path, found.kind, found.state) == ("src/\udce9", "create", "dirty")
    assert (found.agent, found.harness, found.lease, found.token) == (
        "a",
        "shell",
        lease.lease,
        lease.token,
    )
    assert (found.pid, found.program, found.size) == (42, "vi", 9)
    assert (found.host, found.root, found.territory) == ("h1", "/home/a/r", "t")
    assert (found.first_wall_s, found.held, found.fenced) == (17.5, True, False)


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        (["create", "modify"], "create"),
        (["create", "mode", "modify"], "create"),
        (["rename-from", "modify"], "rename-from"),
        (["create", "delete"], "delete"),
        (["delete", "create"], "create"),
        (["modify", "mode"], "mode"),
        (["modify", "rename-to"], "rename-to"),
    ],
)
def test_the_newest_kind_counts_but_what_was_new_stays_new(
    ledger: LedgerDriver, kinds: list[str], kind: str
) -> None:
    lease = ledger.claim("a", "x")
    for number, one in enumerate(kinds):
        ledger.note("a", lease, "x", kind=IntentKind(one), wall_s=10.0 + number)
    (found,) = ledger.intents()
    assert found.kind == kind
    assert (found.first_wall_s, found.last_wall_s) == (10.0, 9.0 + len(kinds))


def test_reported_again_nothing_happens(ledger: LedgerDriver) -> None:
    """P6: once."""
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x", wall_s=5.0)
    assert ledger.happened == ["IntentsNoted"]
    assert ledger.note("a", lease, "x", wall_s=5.0).accepted == 1
    assert ledger.happened == []


def test_a_committed_path_that_changes_is_dirty_from_then_on_and_keeps_its_commit(
    ledger: LedgerDriver,
) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x", kind=IntentKind.CREATE, wall_s=5.0)
    ledger.settle("a", Outcome.COMMITTED, "x", commit="c1")
    (found,) = ledger.intents()
    assert (found.state, found.commit) == ("committed", "c1")
    ledger.note("a", lease, "x", wall_s=9.0)
    (found,) = ledger.intents()
    assert (found.state, found.commit, found.first_wall_s) == ("dirty", "c1", 9.0)
    assert found.kind == "modify", "of HEAD's file, not of a new one"


def test_intents_outlive_lease_session_and_the_next_holders_lease(ledger: LedgerDriver) -> None:
    """P8: visible until it is committed, whatever becomes of the agent."""
    first = ledger.claim("a", "x")
    ledger.note("a", first, "x")
    ledger.run(EndSession("session-a"))
    assert [(one.agent, one.held) for one in ledger.intents()] == [("a", False)]
    second = ledger.claim("b", "x")
    ledger.note("b", second, "x")
    assert [(one.agent, one.held) for one in ledger.intents()] == [("a", False), ("b", True)]
    answer = ledger.settle("b", Outcome.CLEAN, "x")
    assert (answer.settled, answer.ended) == (2, 2)
    assert ledger.intents() == []


def test_a_stale_token_is_kept_marked_and_named(ledger: LedgerDriver) -> None:
    """P5: fenced, and yet a fact."""
    lease = ledger.claim("a", "x", ttl_s=10)
    ledger.pass_s(11)
    assert not ledger.note("a", lease, "x").stale, "lapsed, and nobody has taken it"
    ledger.claim("b", "x")
    answer = ledger.note("a", lease, "x", "y", wall_s=2000.0)
    assert [(one.path, one.lease, one.token) for one in answer.stale] == [
        ("x", lease.lease, lease.token),
        ("y", lease.lease, lease.token),
    ]
    assert [one.fenced for one in ledger.intents(agent="a")] == [True, True]
    assert ledger.intents(agent="b") == []


def test_what_was_told_in_time_is_not_fenced_by_a_journal_that_tells_it_again(
    ledger: LedgerDriver,
) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x", wall_s=5.0)
    ledger.run(EndSession("session-a"))
    ledger.note("b", lease, "x", wall_s=5.0, recovered=True)
    (found,) = ledger.intents()
    assert (found.agent, found.fenced, found.recovered) == ("a", False, False)
    ledger.note("b", lease, "x", wall_s=6.0, recovered=True)
    assert ledger.intents()[0].fenced


def test_a_dead_mounts_journal_is_replayed_by_any_session(ledger: LedgerDriver) -> None:
    """P8: also when the old agent never comes back."""
    lease = ledger.claim("a", "src/**")
    assert not ledger.note("b", lease, "src/1", recovered=True).stale, "its lease still stands"
    ledger.run(EndSession("session-a"))
    assert ledger.note("b", lease, "src/2", recovered=True).stale
    assert [(one.agent, one.path, one.fenced) for one in ledger.intents()] == [
        ("a", "src/1", False),
        ("a", "src/2", True),
    ]
    assert all(one.recovered for one in ledger.intents())


def test_a_wrong_lease_does_not_touch_its_holders_intents(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x", wall_s=5.0)
    assert ledger.note("b", lease, "x", wall_s=6.0).stale
    assert [(one.agent, one.last_wall_s, one.fenced) for one in ledger.intents()] == [
        ("a", 5.0, False),
        ("b", 6.0, True),
    ]


def test_directories_are_covered_where_the_lease_could_need_them(
    ledger: LedgerDriver, refused: Any
) -> None:
    lease = ledger.claim("a", "a/b/*.py")
    ledger.note("a", lease, "a/", "a/b/", "a/b/x.py")
    for path in ("a/b/x.txt", "c/", "a/b/x.txt/", "a"):
        with refused("invalid"):
            ledger.note("a", lease, path)


def test_one_note_that_cannot_be_true_refuses_all(ledger: LedgerDriver, refused: Any) -> None:
    lease = ledger.claim("a", "x")
    with refused("invalid"):
        ledger.note("a", lease, "x", "y")
    assert ledger.intents() == []
    shared = ledger.claim("b", "z", mode=Mode.SHARED)
    with refused("invalid"):
        ledger.note("b", shared, "z")


def test_the_same_path_of_two_trees_is_two_things(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x", tree="t-1")
    ledger.note("a", lease, "x", tree="t-2")
    ledger.settle("b", Outcome.CLEAN, "x", tree="t-2")
    assert [one.tree for one in ledger.intents()] == ["t-1"]


def test_what_changed_after_the_look_is_not_settled_by_it(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "x", "y")
    ledger.note("a", lease, "x", wall_s=10.0)
    ledger.note("a", lease, "y", wall_s=20.0)
    settled = (Settlement("x", Outcome.CLEAN), Settlement("y", Outcome.CLEAN))
    ledger.answered(SettleIntents("session-b", "t-1", settled, as_of_wall_s=15.0))
    assert [one.path for one in ledger.intents()] == ["y"]


def test_whose_mount_lives_is_settled_by_that_mount(ledger: LedgerDriver) -> None:
    """It tells nothing of a second change, since it does not know that somebody has settled the first."""
    former = ledger.claim("a", "x")
    ledger.note("a", former, "x")
    ledger.release("a", former.lease, on_dirty=OnDirty.KEEP)
    present = ledger.claim("b", "x")
    ledger.note("b", present, "x")
    looked_after = Settlement("x", Outcome.CLEAN, leases=(former.lease,))
    ledger.answered(SettleIntents("session-a", "t-1", (looked_after,)))
    assert [one.lease for one in ledger.intents()] == [present.lease]
    # What nobody looks after by himself is anybody's to settle, and so is all to who does not say what is his.
    ledger.answered(EndSession("session-b"))
    ledger.answered(SettleIntents("session-a", "t-1", (looked_after,)))
    assert ledger.intents() == []


def test_whose_mount_lives_is_not_ended_by_anothers_rescue(ledger: LedgerDriver) -> None:
    """Whoever says that they have kept another's work may have kept nothing: its holder's gate still sees it."""
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x")
    ledger.claim("b", "y")

    def kept_by(agent: str, id_: str) -> int:
        where = ("refs/x", "c1", 1, ("x",), "because", 1.0, "h", "/r")
        rescue = Rescue(id_, "", "t-1", lease.lease, lease.token, "a", "shell", ("x",), *where)
        return int(ledger.answered(ReportRescue(f"session-{agent}", rescue, ("x",))).ended)

    assert kept_by("b", "r-1") == 0
    assert [one.lease for one in ledger.intents()] == [lease.lease]
    # What nobody looks after any more is kept by whoever comes, and one's own by oneself.
    assert kept_by("a", "r-2") == 1
    ledger.note("a", lease, "x", wall_s=99.0)
    ledger.answered(EndSession("session-a"))
    assert kept_by("b", "r-1") == 1
    assert ledger.intents() == []


def test_without_an_upstream_what_is_committed_is_done(ledger: LedgerDriver, refused: Any) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x")
    done = Settlement("x", Outcome.COMMITTED, "c1", "b1", done=True)
    ledger.answered(SettleIntents("session-a", "t-1", (done,)))
    assert ledger.intents() == []
    with refused("invalid"):
        ledger.answered(
            SettleIntents("session-a", "t-1", (Settlement("x", Outcome.DIRTY, done=True),))
        )
    with refused("invalid"):
        ledger.settle("a", Outcome.COMMITTED, "x")


def test_a_commit_that_is_gone_makes_the_path_dirty_again(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "x")
    ledger.note("a", lease, "x")
    ledger.settle("a", Outcome.COMMITTED, "x", commit="c1")
    ledger.settle("a", Outcome.DIRTY, "x")
    (found,) = ledger.intents()
    assert (found.state, found.commit) == ("dirty", "")


@pytest.mark.parametrize(
    "path", ["/x", "/", "../x", "a//b", "./a", "a/./b", "a\0", "n" * 256, "a/" * 33_000 + "a"]
)
def test_bad_paths_are_refused(ledger: LedgerDriver, refused: Any, path: str) -> None:
    lease = ledger.claim("a", "**")
    with refused("bad-path"):
        ledger.note("a", lease, path)
    with refused("bad-path"):
        ledger.settle("a", Outcome.CLEAN, path)


def test_a_path_may_be_longer_than_any_that_opens(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "**")
    deep = "a/" * 30_000 + "a"
    ledger.note("a", lease, deep, "")
    ledger.run(EndSession("session-a"))
    ledger.note("b", lease, deep + "b", recovered=True)
    assert len(ledger.intents()) == 3


def test_too_many_at_once_are_refused(ledger: LedgerDriver, refused: Any) -> None:
    lease = ledger.claim("a", "**")
    with refused("invalid"):
        ledger.note("a", lease, *(f"x{number}" for number in range(MAX_NOTES + 1)))
    assert ledger.note("a", lease, *(f"x{number}" for number in range(MAX_NOTES))).accepted


def test_somebody_elses_changes_come_from_a_journal_only(
    ledger: LedgerDriver, refused: Any
) -> None:
    with refused("invalid"):
        ledger.answered(ReportIntents("session-b", "t-1", "h", "/r", (), agent="a"))


def test_foreign_writes_name_the_holder(ledger: LedgerDriver) -> None:
    lease = ledger.claim("a", "src/**")
    ledger.claim("c", "docs/**", mode=Mode.SHARED)
    changes = tuple(
        ForeignReport(path, ForeignChange.MODIFIED, 5.0)
        for path in ("src/x", "docs/x", "q", "src/d/")
    )
    answer = ledger.answered(ReportForeignWrites("session-b", "t-1", changes))
    assert [(one.path, one.agent) for one in answer.held] == [("src/x", "a"), ("src/d/", "a")]
    assert ledger.happened == ["ForeignWrites"]
    event = ledger.last_events[0].event
    assert [one.holder for one in event.changes] == [
        Holder("a", lease.lease),
        None,
        None,
        Holder("a", lease.lease),
    ]
    assert [one.session for one in event.changes] == ["session-a", "", "", "session-a"]
    ledger.answered(ReportForeignWrites("session-b", "t-1", ()))
    assert ledger.happened == []


def test_events_that_were_lost_are_told_of_though_nothing_was_found(ledger: LedgerDriver) -> None:
    ledger.answered(ReportForeignWrites("session-b", "t-1", (), events_lost=True))
    assert ledger.happened == ["ForeignWrites"]
    assert ledger.last_events[0].event.events_lost


def test_ground_that_grew_beside_the_lease_stays_when_more_is_told() -> None:
    """P9: what was told of a path off the lease's ground is found by who is granted that ground, later too."""

    def intent(path: str) -> Intent:
        return Intent(path, IntentKind.MODIFY, "t-1", "L4", 4, "ada", "shell", 0, "", 1.0, 1.0, 0)

    leases: dict[str, tuple[str, ...]] = {work_id("L4", "ada"): ("x/*",)}
    known = Uncommitted()
    for path in ("z", "x/2"):
        known = known.putting("T", [intent(path)], leases)
    for glob in ("z", "x/2"):
        assert [work.lease for work in known.near("T", globs_of((glob,)))] == ["L4"]
