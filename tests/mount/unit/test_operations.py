"""The handlers called directly, on a plain directory, without a kernel in between."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyfuse3
import pytest

from leasefs.core.held import HeldView
from leasefs.mount.handles import OpenFile
from leasefs.mount.links import LinkedNames
from leasefs.mount.operations import CHANGES, Operations
from leasefs.testing.bare_operations import Caller, bare_operations
from leasefs.testing.mount_trees import snapshot
from leasefs.testing.static_holdings import StaticHoldings, held

if TYPE_CHECKING:
    from pathlib import Path

ROOT = 1


@dataclass
class Bench:
    """Operations over a directory, and the means to look at both."""

    operations: Operations
    holdings: StaticHoldings
    source: Path

    async def look(self, path: str) -> int:
        """The number of a path, as the kernel would learn it."""
        number = ROOT
        for name in path.split("/"):
            entry = await self.operations.lookup(number, name.encode(), ctx())
            assert entry.st_ino, f"{path} is not there"
            number = entry.st_ino
        return number

    async def open(self, path: str, flags: int) -> int:
        """A handle."""
        return (await self.operations.open(await self.look(path), flags, ctx())).fh


def ctx() -> Any:
    return Caller()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with bare_operations(tmp_path) as (operations, holdings):
        os.setxattr(tmp_path / "f", "user.had", b"1")
        yield Bench(operations, holdings, tmp_path)


def fields(**changed: int) -> tuple[pyfuse3.EntryAttributes, Any]:
    """The two arguments of setattr."""
    attributes = pyfuse3.EntryAttributes()
    for name, value in changed.items():
        setattr(attributes, name, value)

    class Fields:
        def __getattr__(self, name: str) -> bool:
            wanted = name.replace("update_", "st_")
            return wanted in changed or f"{wanted}_ns" in changed

    return attributes, Fields()


Row = Callable[[Bench], Awaitable[Any]]


async def _write(bench: Bench) -> None:
    file = OpenFile(
        os.open(bench.source / "f", os.O_WRONLY),
        bench.operations.tree.node(await bench.look("f")),
        os.O_WRONLY,
        b"f",
        token=1,
    )
    await bench.operations.write(bench.operations.tree.handles.add(file), 0, b"new")


async def _setattr(bench: Bench) -> None:
    await bench.operations.setattr(await bench.look("f"), *fields(st_mode=0o600), None, ctx())


ROWS: dict[str, Row] = {
    "create": lambda b: b.operations.create(ROOT, b"n", 0o644, os.O_WRONLY, ctx()),
    "link": lambda b: _with(b, "f", lambda n: b.operations.link(n, ROOT, b"n", ctx())),
    "mkdir": lambda b: b.operations.mkdir(ROOT, b"n", 0o755, ctx()),
    "mknod": lambda b: b.operations.mknod(ROOT, b"n", 0o10644, 0, ctx()),
    "open": lambda b: b.open("f", os.O_WRONLY),
    "removexattr": lambda b: _with(
        b, "f", lambda n: b.operations.removexattr(n, b"user.had", ctx())
    ),
    "rename": lambda b: b.operations.rename(ROOT, b"f", ROOT, b"n", 0, ctx()),
    "rmdir": lambda b: b.operations.rmdir(ROOT, b"d", ctx()),
    "setattr": _setattr,
    "setxattr": lambda b: _with(b, "f", lambda n: b.operations.setxattr(n, b"user.k", b"1", ctx())),
    "symlink": lambda b: b.operations.symlink(ROOT, b"n", b"f", ctx()),
    "unlink": lambda b: b.operations.unlink(ROOT, b"f", ctx()),
    "write": _write,
}


async def _with(bench: Bench, path: str, call: Callable[[int], Awaitable[Any]]) -> None:
    await call(await bench.look(path))


def test_there_is_a_row_for_every_handler_that_changes_something() -> None:
    assert set(ROWS) == CHANGES


@pytest.mark.trio
@pytest.mark.parametrize("name", sorted(ROWS))
async def test_without_a_lease_every_change_is_refused_and_recorded(
    bench: Bench, name: str
) -> None:
    """P2: checked when it is opened AND again at each write, truncate, rename, unlink, ..."""
    bench.holdings.view = HeldView()
    before = snapshot(bench.source)
    with pytest.raises(pyfuse3.FUSEError) as caught:
        await ROWS[name](bench)
    assert caught.value.errno == (errno.ESTALE if name == "write" else errno.EACCES)
    assert len(bench.holdings.refusals) == 1
    assert snapshot(bench.source) == before


@pytest.mark.trio
@pytest.mark.parametrize("name", sorted(set(ROWS) - {"rmdir"}))
async def test_under_a_lease_every_change_is_made_and_counts_as_use(
    bench: Bench, name: str
) -> None:
    """P4: a lease lives as long as it is used."""
    before = snapshot(bench.source)
    await ROWS[name](bench)
    if name == "open":
        assert [token for token, _, _ in bench.holdings.users.values()] == [1]
        return
    assert snapshot(bench.source) != before
    assert list(bench.holdings.written) == [1]


@pytest.mark.trio
async def test_times_of_change_are_left_alone_where_not_asked_for(bench: Bench) -> None:
    number = await bench.look("f")
    before = await bench.operations.getattr(number, ctx())
    after = await bench.operations.setattr(number, *fields(st_mtime_ns=5), None, ctx())
    assert (after.st_mtime_ns, after.st_atime_ns) == (5, before.st_atime_ns)


@pytest.mark.trio
async def test_names_are_looked_for_only_where_one_could_be_unleased(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may have thousands of names; each change of it would look at all of them."""
    os.link(bench.source / "f", bench.source / "d/alias")
    looked: list[object] = []

    def look(_: LinkedNames, node: object, __: object) -> tuple[bytes, ...]:
        looked.append(node)
        return ()

    monkeypatch.setattr(LinkedNames, "all_names", look)
    for globs, times in ((["**"], 0), (["*", "*/**"], 0), (["f", "d/**"], 1)):
        bench.holdings.hold([held(1, *globs)])
        looked.clear()
        handle = await bench.open("f", os.O_WRONLY)
        await bench.operations.release(handle)
        assert len(looked) == times, globs


@pytest.mark.trio
async def test_a_name_that_is_not_there_may_be_remembered_as_such(bench: Bench) -> None:
    entry = await bench.operations.lookup(ROOT, b"nothing", ctx())
    assert entry.st_ino == 0
    assert entry.entry_timeout > 0


@pytest.mark.trio
async def test_a_directory_swapped_for_a_symlink_leads_nowhere(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing that is swapped in from outside leads out of the tree."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "f").write_text("outside")
    directory, file = await bench.look("d"), await bench.look("d/f")
    bench.operations.tree.lower.close_directories()
    (bench.source / "d").rename(bench.source / "moved")
    (bench.source / "d").symlink_to(outside)
    calls: list[Awaitable[Any]] = [
        bench.operations.lookup(directory, b"f", ctx()),
        bench.operations.open(file, os.O_WRONLY | os.O_TRUNC, ctx()),
        bench.operations.create(directory, b"n", 0o644, os.O_WRONLY, ctx()),
        bench.operations.unlink(directory, b"f", ctx()),
    ]
    for call in calls:
        with pytest.raises(pyfuse3.FUSEError) as caught:
            await call
        assert caught.value.errno in {errno.ESTALE, errno.ENOTDIR, errno.ELOOP}
    assert os.listdir(outside) == ["f"]
    assert (outside / "f").read_text() == "outside"


@pytest.mark.trio
async def test_a_directory_that_moved_elsewhere_is_not_written_under_its_old_name(
    bench: Bench,
) -> None:
    """Another mount renamed it; our descriptor follows it, our lease does not."""
    bench.holdings.view = HeldView([held(1, "d/**")])
    directory = await bench.look("d")
    await bench.look("d/f")
    (bench.source / "d").rename(bench.source / "theirs")
    for call in (
        bench.operations.create(directory, b"n", 0o644, os.O_WRONLY, ctx()),
        bench.operations.unlink(directory, b"f", ctx()),
    ):
        with pytest.raises(pyfuse3.FUSEError) as caught:
            await call
        assert caught.value.errno in {errno.ESTALE, errno.ENOENT}
    assert sorted(os.listdir(bench.source / "theirs")) == ["f", "sub"]


@pytest.mark.trio
async def test_a_rename_is_done_whatever_became_of_the_files_open_below(bench: Bench) -> None:
    """One of them was moved out of the tree meanwhile; its handle is looked at when it writes next."""
    handle = await bench.open("d/f", os.O_WRONLY)
    await bench.look("d/sub/f")
    (bench.source / "d/f").rename(bench.source.parent / f"{bench.source.name}-away")
    await bench.operations.rename(ROOT, b"d", ROOT, b"e", 0, ctx())
    assert sorted(os.listdir(bench.source / "e")) == ["sub"]
    assert await bench.look("e/sub/f")
    with pytest.raises(pyfuse3.FUSEError) as caught:
        await bench.operations.write(handle, 0, b"x")
    assert caught.value.errno == errno.ESTALE


@pytest.mark.trio
async def test_a_rename_is_done_though_a_file_below_has_a_name_that_moved(bench: Bench) -> None:
    """Another mount moved the directory of its other name: no fault of this rename."""
    (bench.source / "x").mkdir()
    os.link(bench.source / "d/sub/f", bench.source / "x/g")
    handle = await bench.open("d/sub/f", os.O_WRONLY)
    await bench.look("x/g")
    (bench.source / "d/sub").rename(bench.source / "moved")
    await bench.operations.rename(ROOT, b"x", ROOT, b"y", 0, ctx())
    assert await bench.look("y/g")
    bench.holdings.view = HeldView([held(1, "y/**", "d/**")])
    with pytest.raises(pyfuse3.FUSEError):
        await bench.operations.write(handle, 0, b"new")
    assert (bench.source / "y/g").read_text() == "d/sub/f"


@pytest.mark.trio
async def test_a_file_swapped_for_another_is_looked_up_again(bench: Bench) -> None:
    number = await bench.look("f")
    (bench.source / "g").write_text("g")
    (bench.source / "g").rename(bench.source / "f")
    with pytest.raises(pyfuse3.FUSEError) as caught:
        await bench.operations.open(number, os.O_RDONLY, ctx())
    assert caught.value.errno == errno.ESTALE


@pytest.mark.trio
async def test_a_fifo_swapped_in_does_not_stop_the_daemon(bench: Bench) -> None:
    number = await bench.look("f")
    (bench.source / "f").unlink()
    os.mkfifo(bench.source / "f")
    with pytest.raises(pyfuse3.FUSEError):
        await bench.operations.open(number, os.O_RDONLY, ctx())


@pytest.mark.trio
async def test_a_file_created_meanwhile_is_opened_unless_exclusive(bench: Bench) -> None:
    with pytest.raises(pyfuse3.FUSEError) as caught:
        await bench.operations.create(ROOT, b"f", 0o644, os.O_WRONLY | os.O_EXCL, ctx())
    assert caught.value.errno == errno.EEXIST
    info, entry = await bench.operations.create(ROOT, b"f", 0o644, os.O_RDWR, ctx())
    assert await bench.operations.read(info.fh, 0, 10) == b"f"
    assert entry.st_ino == (bench.source / "f").stat().st_ino


@pytest.mark.trio
async def test_descriptors_of_directories_are_bounded(bench: Bench) -> None:
    tree = bench.operations.tree
    tree.lower._limit = 8
    for at in range(30):
        (bench.source / f"{at}/x").mkdir(parents=True)
        await bench.look(f"{at}/x")
    assert len(tree.lower._directories) <= 8
    (bench.source / "0/x/f").write_text("x")
    await bench.look("0/x/f")


@pytest.mark.trio
async def test_everything_is_forgotten_when_the_kernel_says_so(bench: Bench) -> None:
    tree = bench.operations.tree
    before = len(os.listdir("/proc/self/fd"))
    numbers = [await bench.look("d/sub/f"), await bench.look("d/f"), await bench.look("f")]
    await bench.operations.unlink(await bench.look("d/sub"), b"f", ctx())
    assert len(os.listdir("/proc/self/fd")) > before
    known = [node.number for node in tree.inodes if node is not tree.inodes.root]
    await bench.operations.forget([(number, 100) for number in known])
    assert set(numbers) <= set(known)
    assert len(tree.inodes) == 1
    assert len(os.listdir("/proc/self/fd")) == before
