"""What got past the gate on purpose: when it is looked at, and that it is told in the end."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import trio

from leasefs.core.errors import LedgerUnavailable
from leasefs.core.globs import parse_glob
from leasefs.mount import unleased
from leasefs.mount.unleased import HeldLately, Unleased
from leasefs.testing.git_tree import GitTree
from leasefs.testing.static_holdings import held
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasefs.client import api

GIT = 100


class Intents:
    """What `Unleased` reads of an intent log."""

    def __init__(self) -> None:
        self.history: set[bytes] = set()
        self.movers: set[int] = set()
        self.moved: set[bytes] = set()
        self.history_moves: Callable[[], None] = lambda: None

    def made_commits(self, ref: bytes) -> bool:
        return ref in self.moved

    def sees_no_refs(self) -> bool:
        return False


class Ledger:
    """Takes reports, unless it is away."""

    def __init__(self) -> None:
        self.away = False
        self.asked = 0
        self.told: list[tuple[str, str, str]] = []

    async def send(self, call: api.Call, *, timeout_s: float) -> api.Body:
        self.asked += 1
        if self.away:
            raise LedgerUnavailable("away")
        body: Any = call.body
        self.told += [(body["how"], one["path"], one["what"]) for one in body["changes"]]
        return {}


class World:
    def __init__(self, tree: GitTree, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tree = tree
        self.intents = Intents()
        self.ledger = Ledger()
        self.unleased = Unleased(
            self.intents,  # type: ignore[arg-type]
            WorkTree(tree.open_root()),
            "t-1",
            self.ledger,  # type: ignore[arg-type]
            lambda: 1.0,
            lambda: [parse_glob("own/**")],
        )
        for name in ("AFTER_GIT_S", "LOOK_AGAIN_S"):
            monkeypatch.setattr(unleased, name, 0.01)

    def moves(self, *paths: bytes, by: int) -> None:
        self.intents.history.update(paths)
        self.intents.movers.add(by)
        self.intents.history_moves()

    def commit(self, *paths: bytes) -> None:
        for path in paths:
            self.tree.write(path, b"new")
        self.tree.git("add", "-A")
        self.tree.git("commit", "-q", "-m", "x")
        self.intents.moved.add(b"refs/heads/main")
        self.unleased.git_changed()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (tmp_path / "tree").mkdir()
    with ExitStack() as resources:
        tree = GitTree(bytes(tmp_path / "tree"), resources)
        tree.git("init", "-q", "-b", "main")
        for path in (b"own/f", b"other/f"):
            tree.write(path, b"old")
        tree.git("add", "-A")
        tree.git("commit", "-q", "-m", "base")
        yield World(tree, monkeypatch)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        while not condition():  # noqa: ASYNC110 - polling a condition
            await trio.sleep(0.01)


@pytest.mark.trio
async def test_while_git_is_at_work_nothing_is_told(
    world: World, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock may lie there for ever; whether somebody works is seen by the process."""
    alive = {GIT}
    looks: list[int] = []

    def is_alive(pid: int) -> bool:
        looks.append(pid)
        return pid in alive

    monkeypatch.setattr(unleased, "may_be_git", is_alive)
    nursery.start_soon(world.unleased.run)
    world.tree.write(b".git/index.lock")
    for path in (b"own/f", b"other/f", b"other/made"):
        world.tree.write(path, b"moved")
    os.unlink(os.path.join(world.tree.path, b"other/f"))
    world.moves(b"own/f", b"other/f", b"other/made", by=GIT)
    await until(lambda: len(looks) > 2)
    assert world.ledger.asked == 0
    alive.clear()
    await until(lambda: bool(world.ledger.told))
    assert sorted(world.ledger.told) == [
        ("git", "other/f", "deleted"),
        ("git", "other/made", "modified"),
    ]


@pytest.mark.trio
async def test_what_was_only_history_is_not_told(world: World, nursery: trio.Nursery) -> None:
    nursery.start_soon(world.unleased.run)
    world.moves(b"other/f", by=GIT)
    await until(lambda: world.unleased.knows_branches and not world.intents.history)
    world.commit(b"other/swept", b"own/g")
    await until(lambda: bool(world.ledger.told))
    assert world.ledger.told == [("commit", "other/swept", "modified")]


@pytest.mark.trio
async def test_what_the_ledger_could_not_be_told_is_told_later(
    world: World, nursery: trio.Nursery
) -> None:
    nursery.start_soon(world.unleased.run)
    await until(lambda: world.unleased.knows_branches)
    world.ledger.away = True
    world.commit(b"other/swept")
    await until(lambda: world.ledger.asked > 1)
    world.commit(b"other/too")
    world.ledger.away = False
    await until(lambda: len(world.ledger.told) > 1)
    assert [path for _, path, _ in world.ledger.told] == ["other/swept", "other/too"]


@pytest.mark.trio
async def test_what_moved_through_another_mount_is_not_told(
    world: World, nursery: trio.Nursery
) -> None:
    nursery.start_soon(world.unleased.run)
    await until(lambda: world.unleased.knows_branches)
    world.tree.git("checkout", "-q", "-b", "theirs")
    world.commit(b"other/theirs")
    world.tree.git("checkout", "-q", "main")
    world.commit(b"other/ours")
    await until(lambda: bool(world.ledger.told))
    assert world.ledger.told == [("commit", "other/ours", "modified")]


def test_a_lease_counts_for_a_moment_after_its_end() -> None:
    lately = HeldLately()
    lately.note([held(1, "a/**"), held(2, "b/**")], 0.0)
    lately.note([held(2, "b/**")], 100.0)
    assert {glob.text for glob in lately.globs()} == {"a/**", "b/**"}
    lately.note([held(1, "a/**")], 105.0)
    lately.note([held(1, "a/**")], 112.0)
    assert {glob.text for glob in lately.globs()} == {"a/**", "b/**"}
    lately.note([held(1, "a/**")], 116.0)
    assert {glob.text for glob in lately.globs()} == {"a/**"}


def test_a_lease_counts_as_long_as_work_under_it_is_to_be_committed() -> None:
    """What a write claimed is given back long before."""
    lately = HeldLately()
    lately.note([held(1, "a/**")], 0.0)
    lately.note([], 5.0, {1})
    lately.note([], 100.0, {1})
    lately.note([], 105.0)
    assert [glob.text for glob in lately.globs()] == ["a/**"]
    lately.note([], 116.0)
    assert lately.globs() == []
