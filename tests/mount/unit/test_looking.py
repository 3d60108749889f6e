"""What became of the paths that changed, asked of a real repository; who touches them meanwhile wins."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from leasefs.mount import looking
from leasefs.mount.intents import IntentLog
from leasefs.mount.journal import Header, Journal
from leasefs.mount.looking import AFTER_GIT_AT_LAST_S, AFTER_GIT_S, AFTER_TOUCH_S, Looking
from leasefs.testing.static_holdings import held
from leasefs.vcs.errors import VcsError
from leasefs.vcs.reconcile import WorkTree, heads_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from leasefs.mount.intent_report import Settlement

pytestmark = pytest.mark.trio


class Told:
    """Stands in for the report to the ledger."""

    def __init__(self) -> None:
        self.settled: list[dict[str, Any]] = []
        self.some = trio.Event()

    def wake(self) -> None:
        """Nothing is sent."""

    def settle(self, settlements: Sequence[Settlement]) -> None:
        self.settled += [one.told for one in settlements]
        if self.settled:
            self.some.set()

    def outcomes(self) -> list[tuple[str, str]]:
        return [(one["path"], one["outcome"]) for one in self.settled]


class World:
    """A repository with a file, and all that looks at it."""

    def __init__(self, base: Path) -> None:
        self.tree = base / "tree"
        self.tree.mkdir()
        self.root_fd = os.open(self.tree, os.O_RDONLY | os.O_DIRECTORY)
        self.journal = Journal(str(base), Header("t-1", "/r", "h", "t", "a", "x", "s-1"))
        self.intents = IntentLog(self.journal, wall_s=lambda: 1.0, head=self._head)
        self.told = Told()
        tree = WorkTree(self.root_fd)
        self.looking = Looking(self.intents, self.told, tree, None, lambda: 1.0)  # type: ignore[arg-type]

    def _head(self, path: bytes) -> str | None:
        return heads_of(WorkTree(self.root_fd), [path.removesuffix(b"/")]).popitem()[1]

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        done = subprocess.run(command, cwd=self.tree, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def change(self, path: str, content: str) -> None:
        self.intents.ahead(path.encode(), "modify", held(1, "**"), 0)
        (self.tree / path).parent.mkdir(exist_ok=True)
        (self.tree / path).write_text(content)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.git("init", "-q")
    (made.tree / "a").write_text("as it was")
    made.git("add", "a")
    made.git("commit", "-q", "-m", "first")
    yield made
    os.close(made.root_fd)


async def test_what_is_committed_is_told_with_its_commit(world: World) -> None:
    world.change("a", "new")
    await world.looking.look()
    assert world.told.settled == []
    world.git("commit", "-q", "-am", "second")
    await world.looking.look()
    (one,) = world.told.settled
    assert (one["outcome"], one["commit"]) == ("committed", world.git("rev-parse", "HEAD"))
    assert one["done"]  # there is nowhere for it to land
    assert len(world.intents) == 0


async def test_what_equals_head_again_is_clean(world: World) -> None:
    world.change("a", "new")
    world.change("a", "as it was")
    await world.looking.look()
    assert world.told.outcomes() == [("a", "clean")]


async def test_with_an_upstream_it_is_committed_until_it_lands(world: World) -> None:
    world.git("update-ref", "refs/remotes/origin/main", "HEAD")
    world.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    world.change("a", "new")
    world.git("commit", "-q", "-am", "second")
    await world.looking.look()
    await world.looking.look()
    assert world.told.outcomes() == [("a", "committed")]
    assert world.intents.dirty_of(1) == []
    world.git("update-ref", "refs/remotes/origin/main", "HEAD")
    await world.looking.look()
    assert world.told.outcomes()[1:] == [("a", "landed")]
    assert len(world.intents) == 0


async def test_a_commit_that_is_taken_back_leaves_it_dirty(world: World) -> None:
    world.git("update-ref", "refs/remotes/origin/main", "HEAD")
    world.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    world.change("a", "new")
    world.git("commit", "-q", "-am", "second")
    await world.looking.look()
    world.git("reset", "-q", "--soft", "HEAD^")
    await world.looking.look()
    assert world.told.outcomes() == [("a", "committed"), ("a", "dirty")]
    assert world.intents.dirty_of(1) == [b"a"]


async def test_what_is_touched_while_git_is_asked_stays_dirty(world: World) -> None:
    world.change("a", "new")
    world.git("commit", "-q", "-am", "second")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.looking.look)
        await trio.testing.wait_all_tasks_blocked()
        world.change("a", "newer")
    assert world.told.settled == []
    assert world.intents.dirty_of(1) == [b"a"]
    await world.looking.look()
    assert world.intents.dirty_of(1) == [b"a"]


async def test_below_a_directory_that_moved_only_what_differs_is_left(world: World) -> None:
    (world.tree / "d").mkdir()
    world.intents.ahead(b"d/", "rename-from", held(1, "**"), 0, b"old/")
    (world.tree / "d/untracked").write_text("new")
    await world.looking.look()
    assert world.told.outcomes() == [("d/", "clean")]
    assert world.intents.dirty_of(1) == [b"d/untracked"]


async def test_without_git_nothing_is_settled(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.change("a", "new")
    world.intents.ahead(b"d/", "rename-from", held(1, "**"), 0, b"old/")
    await world.looking.look()
    assert world.told.settled == []
    assert len(world.intents) == 2


async def test_a_look_is_made_when_git_changes_and_when_touching_ends(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.looking.run)
        world.change("a", "new")
        world.change("a", "as it was")
        await world.told.some.wait()
        assert world.told.outcomes() == [("a", "clean")]
        world.change("a", "new")
        world.git("commit", "-q", "-am", "second")
        world.told.some = trio.Event()
        world.looking.git_changed()
        await world.told.some.wait()
        assert world.told.outcomes()[1:] == [("a", "committed")]
        nursery.cancel_scope.cancel()


def _looks(world: World, monkeypatch: pytest.MonkeyPatch, *, touched_only: bool) -> list[float]:
    """When looks are made, all of them at that much."""
    looks: list[float] = []
    expected = touched_only

    async def look(*, touched_only: bool) -> None:
        assert touched_only == expected
        looks.append(trio.current_time())

    monkeypatch.setattr(world.looking, "look", look)
    return looks


async def test_a_pause_lasts_from_the_last_touch_and_at_most_twice_as_long(
    world: World, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    looks = _looks(world, monkeypatch, touched_only=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.looking.run)
        for touches, lasts_s in (
            (1, AFTER_TOUCH_S),
            (3, AFTER_TOUCH_S + 1.0),
            (9, 2 * AFTER_TOUCH_S),
        ):
            looks.clear()
            began_s = trio.current_time()
            for at in range(touches):
                await trio.sleep_until(began_s + at * 0.5)
                world.intents.touched()
            await trio.sleep_until(began_s + 2 * AFTER_TOUCH_S + 1.0)
            assert looks == [pytest.approx(began_s + lasts_s)]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("commands", "lasts_s"), [(1, AFTER_GIT_S), (3, AFTER_GIT_S + 0.4), (99, AFTER_GIT_AT_LAST_S)]
)
async def test_what_git_does_in_a_row_is_looked_at_once(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
    commands: int,
    lasts_s: float,
) -> None:
    looks = _looks(world, monkeypatch, touched_only=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.looking.run)
        began_s = trio.current_time()
        for at in range(commands):
            await trio.sleep_until(began_s + at * 0.2)
            world.looking.git_changed()
        await trio.sleep(AFTER_GIT_AT_LAST_S)
        assert looks[0] == pytest.approx(began_s + lasts_s)
        assert len(looks) <= 1 + commands * 0.2 / AFTER_GIT_AT_LAST_S + 1
        nursery.cancel_scope.cancel()


async def test_thousands_of_touches_wake_nobody_who_waits_for_a_pause(
    world: World, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    woken = 0

    class Counted(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal woken
            woken += task.name.endswith("Looking.run")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.looking.run)
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(counted := Counted())
        for _ in range(1000):
            world.intents.touched()
            await trio.sleep(0.001)
        trio.lowlevel.remove_instrument(counted)
        nursery.cancel_scope.cancel()
    assert 0 < woken < 5


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), VcsError("no git")])
async def test_what_could_not_be_looked_at_is_looked_at_later(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A path that was put back by hand is touched no more, and git does not change: nothing else would call."""
    failed = trio.Event()

    def fails(*_: object) -> None:
        monkeypatch.undo()
        trio.from_thread.run_sync(failed.set)
        raise error

    monkeypatch.setattr(looking, "_ask", fails)
    monkeypatch.setattr(looking, "AFTER_FAILURE_S", 0.0)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.looking.run)
            world.change("a", "other")
            world.change("a", "as it was")
            await failed.wait()
            await world.told.some.wait()
            nursery.cancel_scope.cancel()
    assert world.told.outcomes() == [("a", "clean")]


async def test_repositories_in_the_tree_are_watched_before_they_are_asked(world: World) -> None:
    watched: list[bytes] = []
    for directory in ("sub", "sub/deep/er"):
        (world.tree / directory).mkdir(parents=True)
        world.git("init", "-q", directory)
    for path in ("sub/x", "sub/deep/er/y", "plain"):
        world.intents.ahead(path.encode(), "create", held(1, "**"), 0)
        (world.tree / path).write_text("new")
    await world.looking.look()
    world.looking.watch_nested = watched.append
    for _ in range(2):
        await world.looking.look()
    assert watched == [b"sub", b"sub/deep/er"]
