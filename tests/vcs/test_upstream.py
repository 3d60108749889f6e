from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs.upstream import upstream_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree


@pytest.fixture
def clone(repo: GitTree, make_tree: Callable[[str], GitTree]) -> GitTree:
    repo.track(b"a")
    repo.git("commit", "-q", "-m", "x")
    repo.git("branch", "-M", "trunk")
    repo.git("branch", "other")
    tree = make_tree("clone")
    tree.git("clone", "-q", os.fsdecode(repo.path), ".")
    return tree


def test_nothing_to_land_on(repo: GitTree) -> None:
    assert upstream_of(repo.open_git()) is None
    repo.track(b"a")
    repo.git("commit", "-q", "-m", "x")
    assert upstream_of(repo.open_git()) is None
    repo.git("checkout", "-q", "--detach")
    assert upstream_of(repo.open_git()) is None


def test_the_default_branch_of_origin(clone: GitTree) -> None:
    assert upstream_of(clone.open_git()) == "refs/remotes/origin/trunk"
    clone.git("switch", "-q", "--no-track", "-c", "side")
    assert upstream_of(clone.open_git()) == "refs/remotes/origin/trunk"


def test_what_the_branch_follows(clone: GitTree) -> None:
    clone.git("remote", "set-head", "origin", "--delete")
    assert upstream_of(clone.open_git()) == "refs/remotes/origin/trunk"
    clone.git("switch", "-q", "other")
    assert upstream_of(clone.open_git()) == "refs/remotes/origin/other"
    clone.git("branch", "-q", "--unset-upstream")
    assert upstream_of(clone.open_git()) is None


def test_a_default_branch_that_is_gone(clone: GitTree) -> None:
    clone.git("update-ref", "-d", "refs/remotes/origin/trunk")
    clone.git("switch", "-q", "other")
    assert upstream_of(clone.open_git()) == "refs/remotes/origin/other"


@pytest.mark.parametrize(
    ("configured", "ref"),
    [
        ("origin/other", "refs/remotes/origin/other"),
        ("refs/remotes/origin/other", "refs/remotes/origin/other"),
        ("trunk", "refs/heads/trunk"),
        ("refs/heads/not/yet", "refs/heads/not/yet"),
        ("origin/not-yet", "refs/remotes/origin/not-yet"),
        ("", "refs/remotes/origin/trunk"),
    ],
)
def test_the_projects_word(clone: GitTree, configured: str, ref: str) -> None:
    assert upstream_of(clone.open_git(), configured) == ref


@pytest.mark.parametrize("name", ["--all", "a b", "HEAD^", "a\nb", "@{-1}", "a:b", "*", "\x7f"])
def test_a_word_that_is_no_name_is_no_ref(clone: GitTree, name: str) -> None:
    found = upstream_of(clone.open_git(), name)
    assert found
    assert clone.git("rev-parse", "-q", "--verify", "--end-of-options", found, ok=(1, 128)) == b""
