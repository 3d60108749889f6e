"""The walk that finds the other names of a file: what it cannot see must not count as not there."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.gate import Wanting
from leasefs.mount.inodes import Inodes, Node
from leasefs.mount.links import LinkedNames
from leasefs.mount.lower import Lower

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any


class Bench:
    """A file `in/f` that is also `out/sub/g`; the kernel knows the first name only."""

    def __init__(self, root: Path, root_fd: int) -> None:
        self.root = root
        self.inodes = Inodes(os.fstat(root_fd))
        self.lower = Lower(root_fd, self.inodes, directories=16)
        self.links = LinkedNames(self.lower, self.inodes)
        (root / "in").mkdir()
        (root / "out/sub").mkdir(parents=True)
        (root / "in/f").write_text("x")
        os.link(root / "in/f", root / "out/sub/g")
        directory = self.inodes.learn(self.inodes.root, b"in", os.lstat(root / "in"))
        self.node = self.inodes.learn(directory, b"f", os.lstat(root / "in/f"))

    def look(self) -> os.stat_result:
        return self.lower.stat(self.node)

    async def names(self, node: Node | None = None) -> set[bytes]:
        """All names, as the gate would ask for them: at most a few rounds."""
        for _ in range(4):
            try:
                return set(self.links.all_names(node or self.node, self.look))
            except Wanting as wanting:
                await wanting.fetch()
        raise AssertionError("never settles")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    root_fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    made = Bench(tmp_path, root_fd)
    before = len(os.listdir("/proc/self/fd"))
    yield made
    made.lower.close()
    assert len(os.listdir("/proc/self/fd")) <= before
    os.close(root_fd)


@pytest.mark.trio
async def test_all_names_are_found(bench: Bench) -> None:
    assert await bench.names() == {b"in/f", b"out/sub/g"}


@pytest.mark.trio
async def test_a_name_that_is_gone_is_none(bench: Bench) -> None:
    await bench.names()
    os.rename(bench.root / "in/f", bench.root / "in/moved")
    os.link(bench.root / "in/moved", bench.root / "in/third")
    bench.inodes.add_name(bench.node, bench.node.parent or bench.inodes.root, b"third")
    assert await bench.names() == {b"in/moved", b"in/third", b"out/sub/g"}


@pytest.mark.trio
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM])
async def test_a_directory_that_cannot_be_looked_into_is_not_skipped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = os.open

    def failing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if path == b"sub" and flags & os.O_RDONLY == flags & os.O_ACCMODE and not flags & os.O_PATH:
            raise OSError(number, os.strerror(number))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(OSError, match=os.strerror(number)):
        await bench.names()


@pytest.mark.trio
@pytest.mark.parametrize("passable", [True, False])
async def test_a_directory_that_may_be_passed_but_not_listed_hides_names(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, passable: bool
) -> None:
    """Where nothing can be opened either, nothing can be written through it."""
    real_open, real_stat = os.open, os.stat

    def closed(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if path == b"sub" and not flags & os.O_PATH:
            raise PermissionError(errno.EACCES, "closed")
        return real_open(path, flags, *rest, **more)

    def passing(path: Any, **more: Any) -> os.stat_result:
        if path == b"sub/." and not passable:
            raise PermissionError(errno.EACCES, "closed")
        return real_stat(path, **more)

    monkeypatch.setattr(os, "open", closed)
    monkeypatch.setattr(os, "stat", passing)
    if passable:
        with pytest.raises(PermissionError):
            await bench.names()
    else:
        assert await bench.names() == {b"in/f"}


@pytest.mark.trio
async def test_a_name_that_moves_during_the_walk_is_looked_for_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves a directory that is still to be read for one that was read already."""
    os.link(bench.root / "in/f", bench.root.parent / f"{bench.root.name}-outside")
    collect = bench.links._collect
    rounds: list[int] = []

    def meanwhile(root_fd: int, wanted: Any) -> Any:
        if not rounds:
            os.rename(bench.root / "out/sub/g", bench.root.parent / f"{bench.root.name}-hidden")
        gathered = collect(root_fd, wanted)
        if not rounds:
            os.rename(bench.root.parent / f"{bench.root.name}-hidden", bench.root / "out/back")
        rounds.append(1)
        return gathered

    monkeypatch.setattr(bench.links, "_collect", meanwhile)
    assert await bench.names() == {b"in/f", b"out/back"}
    assert len(rounds) == 2


@pytest.mark.trio
async def test_the_last_name_of_an_open_file_is_found(bench: Bench) -> None:
    found = bench.look()
    os.unlink(bench.root / "in/f")
    fd = os.open(bench.root / "out/sub/g", os.O_RDONLY)
    bench.inodes.lose_name(bench.node, bench.node.parent or bench.inodes.root, b"f")
    assert os.fstat(fd).st_nlink == 1
    bench.look = lambda: os.fstat(fd)  # type: ignore[method-assign]
    assert await bench.names() == {b"out/sub/g"}
    assert found.st_ino == os.fstat(fd).st_ino
    os.close(fd)
