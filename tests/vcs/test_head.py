"""The commit that HEAD names, against `git rev-parse`."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs.gitdir import find_git
from leasefs.vcs.head import head_commit

if TYPE_CHECKING:
    from pathlib import Path


def _git(tree: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    done = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _head(tree: Path) -> str:
    root_fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        gitdir = find_git(root_fd)
        assert gitdir is not None
        with gitdir:
            return head_commit(gitdir)
    finally:
        os.close(root_fd)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    made.mkdir()
    _git(made, "init", "-q", "-b", "main")
    return made


def _commit(tree: Path) -> None:
    _git(tree, "commit", "-q", "--allow-empty", "-m", "one")


def test_no_commit_yet(tree: Path) -> None:
    assert _head(tree) == ""


@pytest.mark.parametrize(
    "then",
    [
        ["status"],
        ["pack-refs", "--all"],
        ["switch", "-q", "--detach"],
        ["switch", "-q", "-c", "feature/a+b"],
    ],
)
def test_as_git_says(tree: Path, then: list[str]) -> None:
    _commit(tree)
    _git(tree, *then)
    assert _head(tree) == _git(tree, "rev-parse", "HEAD")


def test_a_branch_that_moved_on_from_its_packed_place(tree: Path) -> None:
    _commit(tree)
    _git(tree, "pack-refs", "--all")
    _commit(tree)
    assert _head(tree) == _git(tree, "rev-parse", "HEAD")


def test_a_linked_worktree(tree: Path) -> None:
    _commit(tree)
    linked = tree.parent / "linked"
    _git(tree, "worktree", "add", "-q", str(linked))
    _git(linked, "commit", "-q", "--allow-empty", "-m", "two")
    assert _head(linked) == _git(linked, "rev-parse", "HEAD") != _head(tree)


def test_a_longer_hash(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q", "--object-format=sha256")
    _commit(tmp_path)
    assert _head(tmp_path) == _git(tmp_path, "rev-parse", "HEAD")


@pytest.mark.parametrize("text", ["ref: ../../x", "ref: refs/../../x", "ref: HEAD", "nonsense", ""])
def test_what_is_no_commit_is_none(tree: Path, text: str) -> None:
    _commit(tree)
    (tree / ".git/HEAD").write_text(text)
    if text == "":
        (tree / ".git/HEAD").write_text("ref: refs/heads/none")
    assert _head(tree) == ""
