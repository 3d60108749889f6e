"""A directory that was looked up is reached by what follows, wherever others move it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyfuse3
import pytest

from leasefs.mount.tree import Tree
from leasefs.testing.bare_operations import Caller, bare_operations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasefs.mount.inodes import Node
    from leasefs.mount.operations import Operations

ROOT: Any = pyfuse3.ROOT_INODE
CALLER: Any = Caller()


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[Operations]:
    with bare_operations(tmp_path) as (found, _):
        yield found


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Callable[[], None]]], None]:
    """What others do right after each look at `d`, in turn."""

    def happens(acts: list[Callable[[], None]]) -> None:
        look = Tree.look

        def looked(tree: Tree, parent: Node, name: bytes) -> os.stat_result | None:
            found = look(tree, parent, name)
            if name == b"d" and acts:
                acts.pop(0)()
            return found

        monkeypatch.setattr(Tree, "look", looked)

    return happens


@pytest.mark.trio
@pytest.mark.parametrize("times", [1, 5])
async def test_a_directory_replaced_as_it_is_looked_up(
    operations: Operations, tmp_path: Path, meanwhile: Any, times: int
) -> None:
    def replace() -> None:
        (tmp_path / "d").rename(tmp_path / f"aside-{len(os.listdir(tmp_path))}")
        (tmp_path / "d").mkdir()

    meanwhile([replace] * times)
    entry = await operations.lookup(ROOT, b"d", CALLER)
    assert entry.st_ino == (tmp_path / "d").stat().st_ino
    (tmp_path / "d").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/new").touch()
    below = await operations.lookup(entry.st_ino, b"new", CALLER)
    assert below.st_ino == (tmp_path / "elsewhere/new").stat().st_ino
    assert len(operations.tree.inodes) == 3  # of those that were replaced nothing is left


@pytest.mark.trio
async def test_a_directory_that_is_gone_as_it_is_looked_up(
    operations: Operations, tmp_path: Path, meanwhile: Any
) -> None:
    meanwhile([lambda: (tmp_path / "d").rename(tmp_path / "elsewhere")])
    assert not (await operations.lookup(ROOT, b"d", CALLER)).st_ino


@pytest.mark.trio
async def test_a_directory_that_becomes_a_file_as_it_is_looked_up(
    operations: Operations, tmp_path: Path, meanwhile: Any
) -> None:
    def replace() -> None:
        (tmp_path / "d").rename(tmp_path / "elsewhere")
        (tmp_path / "f").rename(tmp_path / "d")

    meanwhile([replace])
    entry = await operations.lookup(ROOT, b"d", CALLER)
    assert entry.st_ino == (tmp_path / "d").stat().st_ino
    assert (tmp_path / "d").is_file()


@pytest.mark.trio
async def test_a_directory_replaced_each_time_is_told_as_it_was_seen(
    operations: Operations, tmp_path: Path, meanwhile: Any
) -> None:
    seen: list[int] = []

    def replace() -> None:
        seen.append((tmp_path / "d").stat().st_ino)
        (tmp_path / "d").rename(tmp_path / f"aside-{len(seen)}")
        (tmp_path / "d").mkdir()

    meanwhile([replace] * 1000)
    entry = await operations.lookup(ROOT, b"d", CALLER)
    assert entry.st_ino == seen[-1]
    assert len(seen) < 100
