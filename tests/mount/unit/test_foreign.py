"""Own or foreign, on a plain directory with real events, where own and foreign changes meet at one name."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from leasefs.core.held import HeldView
from leasefs.mount import foreign_cover, watches
from leasefs.mount.control_dir import ControlDir
from leasefs.mount.foreign import Foreign
from leasefs.mount.foreign_cover import Cover
from leasefs.mount.gate import Gate
from leasefs.mount.ground import TreeOnly
from leasefs.mount.inotify import CHANGES, Inotify
from leasefs.mount.operations import Operations
from leasefs.mount.refusals import RefusalLog
from leasefs.mount.serve import build_tree
from leasefs.testing.static_holdings import StaticHoldings, held

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = pytest.mark.trio

ROOT = 1


class Caller:
    uid, gid, pid, umask = os.getuid(), os.getgid(), os.getpid(), 0o022


class Bench:
    """Handlers over a directory, whose events are looked at when the test says so."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.root_fd = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
        self.suspected: list[tuple[str, str]] = []
        self.looked_again = 0
        self.judge = Foreign(
            lambda path, what: self.suspected.append((os.fsdecode(path), what)),
            lambda: time.clock_gettime_ns(time.CLOCK_REALTIME),
        )
        holdings = StaticHoldings(HeldView([held(1, "**")]))
        self.tree = build_tree(
            self.root_fd,
            Gate(holdings, RefusalLog(holdings.refused)),
            TreeOnly(),
            ControlDir({}, 0, 0),
            for_others=False,
            watched=True,
            judge=self.judge,
        )
        self.operations = Operations(self.tree, xattrs=True)
        self.cover = Cover(self.judge, self.tree, self._looked_again)

    def _looked_again(self) -> None:
        self.looked_again += 1

    async def settle(self) -> list[tuple[str, str]]:
        """All that happened is looked at; what is suspected since the last time."""
        await self.tree.outside.settle()
        await trio.testing.wait_all_tasks_blocked(0.01)
        found, self.suspected = self.suspected, []
        return found

    # -- through the handlers, in `d` -----------------------------------------------------------

    async def d(self) -> int:
        return (await self.operations.lookup(ROOT, b"d", _ctx())).st_ino

    async def make(self, name: bytes, content: bytes = b"ours") -> None:
        flags = os.O_CREAT | os.O_WRONLY | os.O_EXCL
        info, _ = await self.operations.create(await self.d(), name, 0o644, flags, _ctx())
        await self.operations.write(info.fh, 0, content)
        await self.operations.release(info.fh)

    async def open(self, name: bytes, flags: int) -> int:
        number = (await self.operations.lookup(await self.d(), name, _ctx())).st_ino
        return (await self.operations.open(number, flags, _ctx())).fh

    async def write(self, name: bytes, content: bytes = b"ours, again") -> None:
        handle = await self.open(name, os.O_WRONLY)
        await self.operations.write(handle, 0, content)
        await self.operations.release(handle)

    async def remove(self, name: bytes) -> None:
        await self.operations.unlink(await self.d(), name, _ctx())

    async def move(self, name: bytes, new: bytes) -> None:
        d = await self.d()
        await self.operations.rename(d, name, d, new, 0, _ctx())


def _ctx() -> Any:
    return Caller()


@pytest.fixture
async def bench(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Bench]:
    monkeypatch.setattr(foreign_cover, "_BEGIN_AFTER_S", 0.0)
    monkeypatch.setattr(foreign_cover, "_REST_S", 0.0)
    source = tmp_path / "source"
    (source / "d/sub").mkdir(parents=True)
    for name in ("f", "d/f", "d/sub/f"):
        (source / name).write_text(name)
    bench = Bench(source)
    nursery.start_soon(bench.cover.run)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert await bench.settle() == []
    assert len(bench.judge.directories()) == 3
    yield bench
    bench.tree.close()
    os.close(bench.root_fd)


async def test_own_changes_of_all_kinds(bench: Bench) -> None:
    await bench.make(b"new")
    await bench.write(b"f")
    assert await bench.settle() == []
    await bench.move(b"new", b"f")
    await bench.write(b"f")
    await bench.make(b"brief")
    await bench.remove(b"brief")
    assert await bench.settle() == []
    handle = await bench.open(b"f", os.O_RDWR)
    for _ in range(3):
        await bench.operations.write(handle, 0, b"x")
        assert await bench.settle() == []
    await bench.operations.release(handle)
    await bench.remove(b"f")
    assert await bench.settle() == []


async def test_a_name_that_the_kernel_asks_for_again_is_still_our_own(bench: Bench) -> None:
    """Each look-up makes the mount forget what it did to the name, as far as the kernel's caches go."""
    await bench.make(b"new")
    await bench.operations.lookup(await bench.d(), b"new", _ctx())
    await bench.remove(b"f")
    assert (await bench.operations.lookup(await bench.d(), b"f", _ctx())).st_ino == 0
    assert await bench.settle() == []


@pytest.mark.parametrize(
    ("foreign", "what"),
    [
        (lambda d: (d / "new").unlink(), "deleted"),
        (lambda d: _replace(d / "new"), "modified"),
    ],
)
async def test_what_was_just_made_here_and_then_changed_by_others(
    bench: Bench, foreign: Callable[[Path], None], what: str
) -> None:
    await bench.make(b"new")
    foreign(bench.source / "d")
    assert await bench.settle() == [("d/new", what)]


async def test_others_make_what_was_just_removed_here(bench: Bench) -> None:
    await bench.remove(b"f")
    (bench.source / "d/f").write_text("theirs")
    assert await bench.settle() == [("d/f", "created")]


async def test_what_others_made_and_we_removed_is_nothing(bench: Bench) -> None:
    (bench.source / "d/new").write_text("theirs")
    await bench.remove(b"new")
    assert await bench.settle() == []


@pytest.mark.parametrize(
    ("foreign", "what"),
    [
        (lambda f: f.write_text("theirs"), "modified"),
        (lambda f: f.unlink(), "deleted"),
        (lambda f: f.chmod(0o755), "mode"),
        (lambda f: _replace(f), "modified"),
        (lambda f: os.truncate(f, 1), "modified"),
        (lambda f: _write_back_in_time(f), "modified"),
    ],
)
@pytest.mark.parametrize("known", ["listed", "made here", "written here"])
async def test_foreign_changes(
    bench: Bench, known: str, foreign: Callable[[Path], None], what: str
) -> None:
    if known == "made here":
        await bench.make(b"g")
    elif known == "written here":
        await bench.write(b"f")
    assert await bench.settle() == []
    name = "g" if known == "made here" else "f"
    # A file system without fine-grained times tells two changes apart if a clock tick lies between.
    await trio.sleep(0.011)
    foreign(bench.source / "d" / name)
    assert await bench.settle() == [(f"d/{name}", what)]
    assert await bench.settle() == []


async def test_times_owners_and_directories_are_nothing(bench: Bench) -> None:
    os.utime(bench.source / "d/f", (1, 1))
    os.setxattr(bench.source / "d/f", "user.x", b"1")
    (bench.source / "d/empty").mkdir()
    (bench.source / "d").chmod(0o700)
    assert await bench.settle() == []


async def test_a_directory_that_others_move_or_bring(bench: Bench, tmp_path: Path) -> None:
    (bench.source / "d/sub").rename(bench.source / "sub")
    assert sorted(await bench.settle()) == [("d/sub/f", "deleted"), ("sub/f", "created")]
    (tmp_path / "brought/in").mkdir(parents=True)
    (tmp_path / "brought/in/f").write_text("old")
    (tmp_path / "brought").rename(bench.source / "d/brought")
    assert await bench.settle() == [("d/brought/in/f", "created")]
    (bench.source / "d/brought/in/f").unlink()
    assert await bench.settle() == [("d/brought/in/f", "deleted")]


async def test_a_directory_that_is_moved_here_keeps_what_is_known(bench: Bench) -> None:
    await bench.move(b"sub", b"moved")
    assert await bench.settle() == []
    (bench.source / "d/moved/f").unlink()
    assert await bench.settle() == [("d/moved/f", "deleted")]


async def test_what_was_scratch_is_known_once_it_is_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_cover, "_TIDY_EVERY_S", 0.005)
    built = bench.source / "d/built"
    built.mkdir()
    (built / "f").write_text("built")
    await bench.settle()
    for node in bench.judge.directories():
        if node.name == b"built":
            bench.tree.outside.unwatch(node)
    (built / "g").write_text("built while it was scratch")
    (bench.source / ".gitignore").write_text("")
    assert await bench.settle() == [(".gitignore", "created")]
    with trio.move_on_after(0.05):
        await bench.cover.tidy()
    assert await bench.settle() == []
    (built / "g").write_text("theirs")
    assert await bench.settle() == [("d/built/g", "modified")]


async def test_after_lost_events_all_is_compared(bench: Bench) -> None:
    (bench.source / "d/f").write_text("theirs")
    (bench.source / "d/sub/f").unlink()
    (bench.source / "f").chmod(0o755)
    (bench.source / "d/arrived").mkdir()
    (bench.source / "d/arrived/g").write_text("theirs")
    await bench.make(b"ours")
    _lose_events(bench)
    await bench.make(b"ours, too")
    assert sorted(await bench.settle()) == [
        ("d/arrived/g", "created"),
        ("d/f", "modified"),
        ("d/sub/f", "deleted"),
        ("f", "mode"),
    ]
    assert bench.looked_again == 1
    await bench.write(b"ours")
    assert await bench.settle() == []
    (bench.source / "d/ours").unlink()
    assert await bench.settle() == [("d/ours", "deleted")]


def _lose_events(bench: Bench) -> None:
    """What waits in the queue is gone, and the kernel says so."""
    while bench.tree.outside._watches.read():
        pass
    bench.tree.outside._lost()


async def test_where_watches_run_out_foreign_ones_make_room(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(watches), "Inotify", FewWatches)
    monkeypatch.setattr(foreign_cover, "_BEGIN_AFTER_S", 0.0)
    for at in range(9):
        (tmp_path / f"d{at}").mkdir()
    bench = Bench(tmp_path)
    nursery.start_soon(bench.cover.run)
    await trio.testing.wait_all_tasks_blocked(0.01)
    await bench.settle()
    assert len(bench.judge.directories()) == FewWatches.left_at_first
    assert bench.judge.unwatched == 10 - FewWatches.left_at_first
    for at in range(9):
        number = (await bench.operations.lookup(ROOT, b"d%d" % at, _ctx())).st_ino
        assert bench.tree.node(number).watch >= 0 or at >= FewWatches.left_at_first - 1
    assert bench.judge.unwatched == 9
    nursery.cancel_scope.cancel()
    bench.tree.close()
    os.close(bench.root_fd)


class FewWatches(Inotify):
    left_at_first = 5

    def __init__(self) -> None:
        super().__init__()
        self.left = self.left_at_first

    def watch(self, directory_fd: int, kinds: int = CHANGES) -> int:
        if not self.left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1
        return super().watch(directory_fd, kinds)

    def unwatch(self, watch: int) -> None:
        self.left += 1
        super().unwatch(watch)


def _replace(path: Path) -> None:
    draft = path.parent / "draft"
    draft.write_text("theirs")
    draft.rename(path)


def _write_back_in_time(path: Path) -> None:
    """As rsync -t and tar do."""
    before = path.stat()
    path.write_bytes(b"t" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
