"""The mount's memory of what it changed: a first change is journalled before it, and nothing older clears it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.core.policy import Op, Place, Target
from leasefs.mount.intended import intended
from leasefs.mount.intents import IntentLog
from leasefs.mount.journal import Header, Journal
from leasefs.testing.static_holdings import held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class World:
    """An intent log over a journal in a directory, with a head that tests set."""

    def __init__(self, directory: Path) -> None:
        self.journal = Journal(str(directory), Header("t-1", "/r", "h", "t", "a", "x", "s-1"))
        self.head, self.now_s = "c0", 12.5
        self.log = IntentLog(self.journal, wall_s=lambda: self.now_s, head=lambda _: self.head)

    @property
    def noted(self) -> list[str]:
        return [note["path"] for note in self.journal.unanswered(1000).values()]

    def change(self, path: bytes, token: int = 1) -> None:
        self.log.ahead(path, "modify", held(token, "**"), 0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.journal.close()


def test_only_the_first_change_of_a_clean_path_is_journalled(world: World) -> None:
    for path in (b"a", b"b", b"a", b"a", b"b"):
        world.change(path)
    assert world.noted == ["a", "b"]


def test_a_path_found_clean_is_journalled_at_its_next_change(world: World) -> None:
    world.change(b"a")
    look = world.log.begin_look()
    assert world.log.is_untouched(look, b"a")
    world.log.clean(b"a")
    world.change(b"a")
    assert world.noted == ["a", "a"]


def test_an_answer_older_than_a_change_clears_nothing(world: World) -> None:
    world.change(b"a")
    world.change(b"b")
    look = world.log.begin_look()
    world.change(b"a")  # already known, and so not journalled: only the epoch tells
    assert not world.log.is_untouched(look, b"a")
    assert world.log.is_untouched(look, b"b")
    assert list(world.log.begin_look(touched_only=True).paths) == [b"a"]


def test_below_a_directory_that_moved_each_path_becomes_an_intent_of_its_own(world: World) -> None:
    world.change(b"new/")
    world.change(b"new/known")
    world.log.found_below(b"new/", {b"new/known": "create", b"new/other": "delete"})
    assert world.noted == ["new/", "new/known", "new/other"]
    assert world.log.dirty_of(1) == [b"new/known", b"new/other"]


def test_what_an_earlier_mount_left_is_journalled_again_when_it_changes(world: World) -> None:
    world.log.adopt(b"a", "L9", 9)
    assert world.log.dirty_of(9) == [b"a"]
    world.change(b"a", token=10)
    assert world.noted == ["a"]


def test_each_lease_has_its_own_intent_of_a_path(world: World) -> None:
    world.change(b"a", token=1)
    world.change(b"a", token=2)
    assert world.noted == ["a", "a"]
    assert world.log.dirty_of(1) == []
    assert world.log.dirty_of(2) == [b"a"]


def test_a_committed_path_that_changes_again_is_a_new_intent(world: World) -> None:
    world.change(b"a")
    world.log.committed(b"a", "c1", "b1")
    assert world.log.dirty_of(1) == []
    assert world.log.lease_of(b"a") == 1
    world.head = "c1"
    look = world.log.begin_look()
    world.change(b"a")
    assert world.noted == ["a", "a"]
    assert not world.log.is_untouched(look, b"a")
    assert world.log.begin_look().paths[b"a"].head == "c0"


def test_what_the_journal_refuses_is_not_known(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(note: object) -> int:
        raise OSError(28, "full")

    with monkeypatch.context() as patched:
        patched.setattr(world.journal, "note", full)
        with pytest.raises(OSError, match="full"):
            world.change(b"a")
    assert len(world.log) == 0
    world.change(b"a")
    assert world.noted == ["a"]


@pytest.mark.parametrize("whole", [False, True])
def test_of_a_rename_only_the_end_that_git_does_not_ignore_is_an_intent(whole: bool) -> None:
    """P8: nothing is invented; what git ignores is nobody's work."""
    tree = Target(b"src", whole_tree=whole)
    scratch = Target(b"out", Place.SCRATCH, whole_tree=whole)
    slash = b"/" if whole else b""
    src, out = b"src" + slash, b"out" + slash
    assert intended(Op.RENAME, (tree, scratch)) == [(src, "rename-to", out)]
    assert intended(Op.RENAME, (scratch, tree)) == [(src, "rename-from", out)]
    assert intended(Op.RENAME, (scratch, scratch)) == []


def test_what_is_taken_over_and_changed_begins_where_that_is_known(world: World) -> None:
    world.log.adopt(b"dirty", "L9", 9)
    world.log.adopt(b"committed", "L9", 9, "c0", "b0")
    world.head = "c1"
    for path in (b"dirty", b"committed"):
        world.change(path)
    heads = {path: one.head for path, one in world.log.begin_look().paths.items()}
    assert heads == {b"dirty": "c1", b"committed": None}


def test_a_wall_clock_that_is_set_back_makes_nothing_older_than_it_is(world: World) -> None:
    """The ledger leaves alone what was noted after it was looked at."""
    world.change(b"a")
    world.now_s = 3.0
    assert world.log.wall_s() == 12.5
    world.log.adopt(b"b", "L9", 9, changed_wall_s=40.0)
    world.change(b"c")
    assert [note["wall_s"] for note in world.journal.unanswered(9).values()] == [12.5, 40.0]
    world.now_s = 50.0
    assert world.log.wall_s() == 50.0


def test_a_path_below_is_of_the_newest_lease_that_it_was_moved_under(world: World) -> None:
    world.log.adopt(b"d/a", "L9", 9)
    world.change(b"d/b", token=12)
    world.log.ahead(b"d/", "rename-from", held(11, "**"), 0)
    world.log.found_below(b"d/", {b"d/a": "modify", b"d/b": "modify"})
    assert world.log.dirty_of(11) == [b"d/a"]
    assert world.log.dirty_of(12) == [b"d/b"]


def test_a_directory_stays_an_intent_while_the_journal_is_full(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(note: object) -> int:
        raise OSError(28, "full")

    world.change(b"d/")
    with monkeypatch.context() as patched:
        patched.setattr(world.journal, "note", full)
        with pytest.raises(OSError, match="full"):
            world.log.found_below(b"d/", {b"d/a": "modify"})
    assert world.log.dirty_of(1) == [b"d/"]
    world.log.found_below(b"d/", {b"d/a": "modify"})
    assert world.log.dirty_of(1) == [b"d/a"]


def test_what_a_dead_mount_moved_stays_its_agents_work(world: World) -> None:
    world.log.adopt(b"new/", "L9", 9, author=("agent-09", "other"))
    world.log.found_below(b"new/", {b"new/a": "create"})
    (note,) = world.journal.unanswered(1000).values()
    assert (note["path"], note["lease"], note["agent"]) == ("new/a", "L9", "agent-09")


def test_a_ledger_that_forgot_is_told_again_all_that_is_known(world: World) -> None:
    """P8, when a backup was brought back: what it answered counts no more, and git is asked anew about what is committed."""
    world.change(b"dirty")
    world.log.adopt(b"others", "L9", 9, author=("agent-09", "other"))
    world.log.adopt(b"committed", "L9", 9, "c0", "b0")
    world.journal.answered(world.journal.last)
    world.change(b"new")
    touched: list[bool] = []
    world.log.touched = lambda: touched.append(True)
    world.log.tell_again()
    told = {note["path"]: note for note in world.journal.unanswered(1000).values()}
    assert sorted(told) == ["committed", "dirty", "new", "others"]
    assert (told["others"]["agent"], told["others"]["lease"]) == ("agent-09", "L9")
    assert told["dirty"]["token"] == 1
    assert sorted(world.log.begin_look(touched_only=True).paths) == sorted(map(str.encode, told))
    assert world.log.is_dirty(b"committed"), "until git was asked again"
    assert touched
