"""The write check, row by row of the design's table (P2)."""

from __future__ import annotations

import pytest

from leasefs.core.carving import Carved
from leasefs.core.globs import parse_glob
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode
from leasefs.core.policy import (
    Allowed,
    Op,
    Place,
    Reason,
    Refused,
    Target,
    Verdict,
    decide,
    decide_open_handle,
)

NOW_S = 100.0


CONTENT = [
    Op.OPEN,
    Op.WRITE,
    Op.TRUNCATE,
    Op.CHMOD,
    Op.CHOWN,
    Op.UTIMENS,
    Op.SETXATTR,
    Op.REMOVEXATTR,
]
NAMES = [Op.CREATE, Op.MKNOD, Op.SYMLINK, Op.UNLINK, Op.RENAME, Op.LINK]
EVERY = list(Op)


def lease(
    token: int, *globs: str, mode: Mode = Mode.EXCLUSIVE, until_s: float = 200.0
) -> HeldLease:
    return HeldLease(f"l{token}", token, tuple(parse_glob(g) for g in globs), mode, 60.0, until_s)


def carved(*globs: str, child: str = "L9") -> Carved:
    return Carved("L1", tuple(parse_glob(glob) for glob in globs), "agent-31", child)


def ask(op: Op, *targets: Target, held: HeldView | None = None) -> Verdict:
    return decide(op, targets, held or HeldView([lease(1, "in/**", "in")]), NOW_S)


def reason(verdict: Verdict) -> Reason:
    assert isinstance(verdict, Refused)
    return verdict.reason


@pytest.mark.parametrize("op", EVERY)
def test_inside_a_lease_everything_is_allowed_and_outside_nothing(op: Op) -> None:
    inside = ask(op, Target(b"in/f"))
    assert isinstance(inside, Allowed)
    assert inside.lease is not None
    refused = ask(op, Target(b"out/f"))
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.op, refused.path, refused.lease) == (
        Reason.NOT_LEASED,
        op,
        b"out/f",
        None,
    )


@pytest.mark.parametrize("op", EVERY)
def test_a_shared_lease_lets_nobody_write(op: Op) -> None:
    shared = HeldView([lease(1, "**", mode=Mode.SHARED)])
    assert reason(ask(op, Target(b"in/f"), held=shared)) is Reason.NOT_LEASED


@pytest.mark.parametrize("op", EVERY)
def test_a_lapsed_lease_is_named(op: Op) -> None:
    verdict = ask(op, Target(b"f"), held=HeldView([lease(1, "f", until_s=NOW_S)]))
    assert isinstance(verdict, Refused)
    assert verdict.reason is Reason.LAPSED
    assert verdict.lease is not None
    assert verdict.lease.lease_id == "l1"


@pytest.mark.parametrize("op", EVERY)
@pytest.mark.parametrize("place", [Place.SCRATCH, Place.GIT])
def test_scratch_and_git_need_nothing(op: Op, place: Place) -> None:
    assert ask(op, Target(b"out/f", place)) == Allowed(None)
    assert ask(op, Target(b"out/d", place, whole_tree=True)) == Allowed(None)


@pytest.mark.parametrize("op", EVERY)
def test_the_control_directory_never_changes(op: Op) -> None:
    everything = HeldView([lease(1, "**")])
    assert reason(ask(op, Target(b".leasefs/x", Place.CONTROL), held=everything)) is Reason.CONTROL


@pytest.mark.parametrize("op", [Op.RENAME, Op.LINK])
def test_every_name_has_to_be_allowed(op: Op) -> None:
    for pair in ((b"in/f", b"out/f"), (b"out/f", b"in/f")):
        verdict = ask(op, *(Target(path) for path in pair))
        assert isinstance(verdict, Refused)
        assert verdict.path == b"out/f"
    assert isinstance(ask(op, Target(b"in/f"), Target(b"in/g")), Allowed)


def test_what_leaves_scratch_or_git_needs_a_lease_where_it_goes() -> None:
    for place in (Place.SCRATCH, Place.GIT):
        assert reason(ask(Op.RENAME, Target(b"x", place), Target(b"out/f"))) is Reason.NOT_LEASED
        moved = ask(Op.RENAME, Target(b"x", place), Target(b"in/f"))
        assert isinstance(moved, Allowed)
        assert moved.lease is not None


def test_directories_down_to_a_glob_may_be_made_and_removed() -> None:
    deep = HeldView([lease(1, "a/b/*.py")])
    for op in (Op.MKDIR, Op.RMDIR):
        assert isinstance(ask(op, Target(b"a"), held=deep), Allowed)
        assert isinstance(ask(op, Target(b"a/b"), held=deep), Allowed)
        assert reason(ask(op, Target(b"a/c"), held=deep)) is Reason.NOT_LEASED
    for op in set(EVERY) - {Op.MKDIR, Op.RMDIR}:
        assert reason(ask(op, Target(b"a"), held=deep)) is Reason.NOT_LEASED


def test_a_directory_moves_only_with_everything_below() -> None:
    assert isinstance(ask(Op.RENAME, Target(b"in/d", whole_tree=True)), Allowed)
    partly = HeldView([lease(1, "d", "d/*")])
    verdict = ask(Op.RENAME, Target(b"d", whole_tree=True), held=partly)
    assert reason(verdict) is Reason.TREE_NOT_LEASED


@pytest.mark.parametrize("op", [*CONTENT, Op.LINK])
@pytest.mark.parametrize("place", [Place.TREE, Place.SCRATCH, Place.GIT])
def test_every_other_name_of_a_file_counts(op: Op, place: Place) -> None:
    """Writing through an alias of an unleased file is refused wherever the alias lies."""
    verdict = ask(op, Target(b"in/f", place, aliases=(b"in/g", b"out/f")))
    assert isinstance(verdict, Refused)
    assert (verdict.reason, verdict.path) == (Reason.ALIAS_NOT_LEASED, b"out/f")
    assert isinstance(ask(op, Target(b"in/f", place, aliases=(b"in/g",))), Allowed)


@pytest.mark.parametrize("op", NAMES)
def test_companions_are_allowed_beside_a_leased_file(op: Op) -> None:
    one = HeldView([lease(1, "src/f")])
    verdict = ask(op, Target(b"src/.f.swp"), held=one)
    assert verdict == Allowed(one.leases[0], companion=True, by_name=False)
    assert reason(ask(op, Target(b"src/.g.swp"), held=one)) is Reason.NOT_LEASED


@pytest.mark.parametrize("op", [Op.MKDIR, Op.RMDIR])
@pytest.mark.parametrize("name", [b"src/f~", b"src/4913", b"src/sedentary", b"src/f.lock"])
def test_a_directory_is_never_a_companion(op: Op, name: bytes) -> None:
    """An atomic save makes none, and many an ordinary name looks like a temporary file's."""
    one = HeldView([lease(1, "src/f")])
    assert isinstance(ask(Op.CREATE, Target(name), held=one), Allowed)
    assert reason(ask(op, Target(name), held=one)) is Reason.NOT_LEASED


def test_a_tracked_file_or_an_alias_is_never_a_companion() -> None:
    one = HeldView([lease(1, "src/f")])
    assert reason(ask(Op.CREATE, Target(b"src/f~", tracked=True), held=one)) is Reason.NOT_LEASED
    linked = Target(b"src/f~", aliases=(b"src/f",))
    assert reason(ask(Op.OPEN, linked, held=one)) is Reason.NOT_LEASED


def test_the_lease_of_the_leased_name_is_the_answer_not_that_of_the_companion() -> None:
    two = HeldView([lease(1, "src/g"), lease(2, "src/f")])
    saved = ask(Op.RENAME, Target(b"src/.f.swp"), Target(b"src/f"), held=two)
    assert saved == Allowed(two.leases[1], by_name=False)


def test_nothing_touched_needs_nothing() -> None:
    assert ask(Op.CHMOD) == Allowed(None)


class TestOpenHandles:
    """What a handle opened under a lease may still do (P2, P5)."""

    def ask(self, token: int, *leases: HeldLease) -> Verdict:
        return decide_open_handle(Op.WRITE, token, b"f", HeldView(leases), NOW_S)

    def test_its_lease_is_trusted(self) -> None:
        assert isinstance(self.ask(4, lease(4, "f")), Allowed)

    def test_its_lease_has_lapsed(self) -> None:
        assert reason(self.ask(4, lease(4, "f", until_s=NOW_S))) is Reason.LAPSED

    def test_its_lease_is_gone(self) -> None:
        assert reason(self.ask(4)) is Reason.LOST

    def test_a_newer_lease_does_not_revive_it(self) -> None:
        """Somebody else may have written between the two."""
        assert reason(self.ask(4, lease(9, "f"))) is Reason.LOST

    def test_an_older_lease_held_all_along_keeps_it(self) -> None:
        assert isinstance(self.ask(4, lease(2, "f")), Allowed)
        assert reason(self.ask(4, lease(2, "f", until_s=NOW_S))) is Reason.LOST

    def test_a_shared_lease_lets_nobody_write_through_it(self) -> None:
        """Downgraded under the same token, say: the mode counts, not only that the lease is there."""
        refused = self.ask(4, lease(4, "f", mode=Mode.SHARED))
        assert reason(refused) is Reason.SHARED_SINCE

    def test_delegated_ground_is_closed_whatever_lease_the_handle_has(self) -> None:
        """By its token and by its path: also where an older lease would have kept it."""
        for leases in ([lease(4, "f")], [lease(2, "f")], [lease(4, "f"), lease(5, "**")], []):
            view = HeldView(leases, carved=[carved("f")])
            refused = decide_open_handle(Op.WRITE, 4, b"f", view, NOW_S)
            assert reason(refused) is Reason.DELEGATED_SINCE
            assert isinstance(refused, Refused)
            assert "agent-31 has it as L9" in refused.detail

    def test_beside_delegated_ground_it_writes_on(self) -> None:
        view = HeldView([lease(4, "**")], carved=[carved("g")])
        assert isinstance(decide_open_handle(Op.WRITE, 4, b"f", view, NOW_S), Allowed)


class TestDelegatedGround:
    """Who delegated a part does not change a name there, and is told who has it (P1, P10)."""

    view = HeldView([lease(1, "**"), lease(2, "out/**")], carved=[carved("out/**", "out")])

    @pytest.mark.parametrize("op", [op for op in Op if op is not Op.WRITE])
    def test_no_name_of_it_may_change(self, op: Op) -> None:
        refused = ask(op, Target(b"out/f"), held=self.view)
        assert reason(refused) is Reason.DELEGATED
        assert isinstance(refused, Refused)
        assert "leasefs recall L9" in refused.detail

    def test_a_directory_with_a_part_of_it_does_not_move(self) -> None:
        for directory in (b"out", b"out/deep", b"d"):
            moved = ask(
                Op.RENAME, Target(directory, whole_tree=True), Target(b"new"), held=self.view
            )
            assert isinstance(moved, Allowed) == (directory == b"d")
        above = HeldView([lease(1, "**")], carved=[carved("d/e/f")])
        assert reason(ask(Op.RENAME, Target(b"d", whole_tree=True), held=above)) is Reason.DELEGATED

    def test_no_companion_is_made_there(self) -> None:
        beside = HeldView([lease(1, "src/**")], carved=[carved("src/*.swp")])
        assert isinstance(ask(Op.CREATE, Target(b"src/.f.swo"), held=beside), Allowed)
        assert reason(ask(Op.CREATE, Target(b"src/.f.swp"), held=beside)) is Reason.DELEGATED

    def test_another_name_of_the_file_there_closes_it(self) -> None:
        linked = Target(b"in/f", aliases=(b"out/f",))
        assert reason(ask(Op.OPEN, linked, held=self.view)) is Reason.DELEGATED

    def test_a_directory_that_is_needed_for_what_is_left_may_be_made(self) -> None:
        above = HeldView([lease(1, "a/**")], carved=[carved("a/*")])
        assert isinstance(ask(Op.MKDIR, Target(b"a/b"), held=above), Allowed)
        assert reason(ask(Op.CREATE, Target(b"a/b"), held=above)) is Reason.DELEGATED

    def test_while_the_ledger_has_not_answered_that_is_said(self) -> None:
        asking = HeldView([lease(1, "**")], carved=[carved("f", child="")])
        refused = ask(Op.OPEN, Target(b"f"), held=asking)
        assert isinstance(refused, Refused)
        assert "not answered yet" in refused.detail
