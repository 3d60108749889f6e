"""What was work when it was made, and has become scratch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs import now_ignored as module
from leasefs.vcs.now_ignored import now_ignored
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from leasefs.testing.git_tree import GitTree

NAMES = [b"out/deep/x", b"log", b"-x", b"*", b":(top)y", b"\xff", b"new\nline", b"out2/y"]


def ignored(repo: GitTree, *paths: bytes) -> set[bytes]:
    return now_ignored(WorkTree(repo.open_root()), paths)


@pytest.mark.parametrize("bytes_at_once", [1, 20, 64_000])
def test_only_what_a_rule_of_the_tree_covers(
    repo: GitTree, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int
) -> None:
    monkeypatch.setattr(module, "_BYTES", bytes_at_once)
    for name in NAMES:
        repo.write(name)
    assert ignored(repo, *NAMES) == set()
    repo.write(b".gitignore", b"/out/\n/log\n/-x\n/\\*\n/:(top)y\n/\xff\nnew*\n")
    assert ignored(repo, *NAMES) == set(NAMES) - {b"out2/y"}
    assert ignored(repo, b"log") == {b"log"}
    assert ignored(repo, b"gone/log", b".gitignore") == set()
    assert ignored(repo) == set()


def test_what_git_tracks_is_not_scratch(repo: GitTree) -> None:
    repo.write(b"log")
    repo.git("add", "log")
    repo.write(b".gitignore", b"log\n")
    assert ignored(repo, b"log") == set()


def test_rules_that_need_no_lease_do_not_count(repo: GitTree) -> None:
    repo.write(b"log")
    repo.write(b".git/info/exclude", b"log\n")
    repo.write(b"rules", b"log\n")
    repo.git("config", "core.excludesFile", os.fsdecode(repo.path + b"/rules"))
    assert ignored(repo, b"log") == set()


def test_a_repository_inside_answers_for_itself(repo: GitTree) -> None:
    repo.write(b"inner/log")
    repo.git("init", "-q", "inner")
    repo.write(b".gitignore", b"log\n")
    assert ignored(repo, b"inner/log") == set()
