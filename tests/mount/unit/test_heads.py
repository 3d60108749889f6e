"""What HEAD names is told for each path as git would, and read once for each repository."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.heads import Heads, head_in
from leasefs.testing.mount_trees import git
from leasefs.vcs import reconcile
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _commit(place: Path) -> str:
    place.mkdir(parents=True, exist_ok=True)
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", f"in {place.name}")
    return git(place, "rev-parse", "HEAD").strip()


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[WorkTree]:
    root_fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield WorkTree(root_fd)
    os.close(root_fd)


def test_each_path_has_the_head_of_the_repository_that_it_is_in(
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
    assert {path: heads.of(path) for path in expected} == expected
    own = {path: head_in(tree, path.rstrip(b"/").rpartition(b"/")[0]) for path in [*expected][:-1]}
    assert own == {path: expected[path] for path in own}


def test_a_repository_is_read_once_until_git_does_something(
    tmp_path: Path, tree: WorkTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _commit(tmp_path)
    for at in range(20):
        (tmp_path / f"d{at}/below").mkdir(parents=True)
    read, asked = reconcile.heads_of, []

    def counted(tree: WorkTree, paths: list[bytes]) -> dict[bytes, str]:
        asked.append(paths)
        return read(tree, paths)

    monkeypatch.setattr(reconcile, "heads_of", counted)
    heads = Heads(tree)
    paths = [b"d%d/below/file%d" % (at % 20, at) for at in range(60)]
    assert {heads.of(path) for path in paths} == {before}
    assert len(asked) == 1
    after = _commit(tmp_path)
    assert {heads.of(path) for path in paths} == {before}
    heads.forget()
    assert {heads.of(path) for path in paths} == {after}
    assert len(asked) == 2


def test_no_path_is_too_deep(tmp_path: Path, tree: WorkTree) -> None:
    head = _commit(tmp_path)
    assert Heads(tree).of(b"d/" * 1900 + b"file") == head


def test_without_a_repository_there_is_none(tree: WorkTree) -> None:
    assert Heads(tree).of(b"d/file") == ""


def test_what_cannot_be_read_is_not_known(tmp_path: Path, tree: WorkTree) -> None:
    (tmp_path / ".git").write_text("gitdir: nowhere")
    (tmp_path / "f").write_text("")
    heads = Heads(tree)
    assert heads.of(b"file") is None
    for no_directory in (b"f", b"x" * 300):
        assert heads.of(no_directory + b"/file") is None
