"""What HEAD names is told for each path as git would, and read once for each repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.mount import heads as heads_module
from leasefs.mount.heads import Heads, head_in
from leasefs.testing.mount_trees import git
from leasefs.vcs.head import head_commit
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasefs.vcs.gitdir import GitDir

pytestmark = pytest.mark.trio


def _commit(place: Path) -> str:
    place.mkdir(parents=True, exist_ok=True)
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", f"in {place.name}")
    return git(place, "rev-parse", "HEAD").strip()


async def told(heads: Heads, *paths: bytes) -> dict[bytes, str | None]:
    await heads.prepare(paths)
    return {path: heads.of(path) for path in paths}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[WorkTree]:
    root_fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield WorkTree(root_fd)
    os.close(root_fd)


async def test_each_path_has_the_head_of_the_repository_that_it_is_in(
    tmp_path: Path, tree: WorkTree
) -> None:
    outer = _commit(tmp_path)
    inner = _commit(tmp_path / "a/inner")
    innermost = _commit(tmp_path / "a/inner/b/c")
    (tmp_path / "a/inner/plain/deep").mkdir(parents=True)
    (tmp_path / "none/.git").mkdir(parents=True)
    git(tmp_path, "init", "-q", "empty")
    expected = {
        b"file": outer,
        b"a/file": outer,
        b"missing/deep/file": outer,
        b"a/inner/file": inner,
        b"a/inner/plain/deep/file": inner,
        b"a/inner/plain/deep/": inner,
        b"a/inner/b/file": inner,
        b"a/inner/b/c/file": innermost,
        b"none/file": outer,
        b"empty/file": "",
        b"a/inner/.git/objects/12/34": "",
    }
    heads = Heads(tree)
    assert await told(heads, *expected) == expected
    own = {path: head_in(tree, path.rstrip(b"/").rpartition(b"/")[0]) for path in [*expected][:-1]}
    assert own == {path: expected[path] for path in own}
    heads.close()


async def test_a_repository_is_read_once_until_git_does_something(
    tmp_path: Path, tree: WorkTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _commit(tmp_path)
    for at in range(20):
        (tmp_path / f"d{at}/below").mkdir(parents=True)
    asked = []

    def counted(gitdir: GitDir) -> str:
        asked.append(gitdir)
        return head_commit(gitdir)

    monkeypatch.setattr(heads_module, "head_commit", counted)
    heads = Heads(tree)
    paths = [b"d%d/below/file%d" % (at % 20, at) for at in range(60)]
    assert set((await told(heads, *paths)).values()) == {before}
    assert len(asked) == 1
    after = _commit(tmp_path)
    assert {heads.of(path) for path in paths} == {before}
    heads.forget()
    # It is open by now: nobody has to look for it.
    assert {heads.of(path) for path in paths} == {after}
    assert len(asked) == 2
    heads.close()


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[bytes]:
    """A directory 1,900 levels down."""
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1_900):
        os.mkdir("d", dir_fd=fd)
        above, fd = fd, os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(above)
    os.close(fd)
    yield b"d/" * 1_900
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)  # too deep for pytest to do so


async def test_no_path_is_too_deep(tmp_path: Path, tree: WorkTree, deep: bytes) -> None:
    head = _commit(tmp_path)
    heads = Heads(tree)
    for path in (deep + b"file", deep + deep + b"not there"):
        assert await told(heads, path) == {path: head}
    heads.close()


async def test_without_a_repository_there_is_none(tree: WorkTree) -> None:
    assert Heads(tree).of(b"d/file") == ""


async def test_what_cannot_be_read_is_not_known(tmp_path: Path, tree: WorkTree) -> None:
    (tmp_path / ".git").write_text("gitdir: nowhere")
    (tmp_path / "f").write_text("")
    paths = b"file", b"f/file", b"x" * 300 + b"/file"
    assert await told(Heads(tree), *paths) == dict.fromkeys(paths)


async def test_one_that_is_replaced_is_looked_for_anew(tmp_path: Path, tree: WorkTree) -> None:
    outer = _commit(tmp_path)
    (tmp_path / "a/.git").mkdir(parents=True)
    heads = Heads(tree)
    assert await told(heads, b"a/f") == {b"a/f": outer}
    inner = _commit(tmp_path / "a")
    heads.forget()
    assert await told(heads, b"a/f") == {b"a/f": inner}
    git(tmp_path, "worktree", "add", "-q", "b", "HEAD")
    (tmp_path / "a/.git").rename(tmp_path / "a/away")
    (tmp_path / "a/.git").write_text((tmp_path / "b/.git").read_text())
    heads.forget()
    assert await told(heads, b"a/f", b"b/f") == {b"a/f": outer, b"b/f": outer}
    shutil.rmtree(tmp_path / "b/.git", ignore_errors=True)
    (tmp_path / "a/.git").unlink()
    heads.forget()
    assert heads.of(b"a/f") == outer
    heads.close()


async def test_descriptors_are_kept_for_the_newest_and_closed_in_the_end(
    tmp_path: Path, tree: WorkTree
) -> None:
    expected = {b"r%d/f" % at: _commit(tmp_path / f"r{at}") for at in range(70)}
    before = len(os.listdir("/proc/self/fd"))
    heads = Heads(tree)
    assert await told(heads, *expected) == expected
    assert len(os.listdir("/proc/self/fd")) - before == 2 * 64
    heads.close()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_who_cannot_be_reached_is_not_waited_for_for_ever(
    tmp_path: Path, tree: WorkTree, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """As where the way leads through a directory that the kernel keeps locked for the very request."""
    _commit(tmp_path)
    released = threading.Event()

    def blocked(tree: WorkTree, directory: bytes) -> None:
        released.wait()

    monkeypatch.setattr(heads_module, "_opened", blocked)
    heads = Heads(tree)
    began_s = trio.current_time()
    assert await told(heads, b"f") == {b"f": None}
    assert trio.current_time() - began_s < 5
    released.set()
