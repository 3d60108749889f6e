"""What a commit authors, while it is made and afterwards, told apart from what history brings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs.commit_paths import brought_along, staged_paths, unleased_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree

BASE = "\n".join(map(str, range(20)))


def commit(tree: GitTree, *names: str, content: str = "") -> str:
    for name in names:
        tree.write(os.fsencode(name), (content or name).encode())
    tree.git("add", "-A")
    tree.git("commit", "-q", "--allow-empty", "-m", " ".join(names) or "nothing")
    return tree.git("rev-parse", "HEAD").decode().strip()


def staged(tree: GitTree) -> list[bytes]:
    return staged_paths(os.fsdecode(tree.path))


def brought(tree: GitTree) -> set[bytes]:
    return brought_along(os.fsdecode(tree.path))


def unleased(
    tree: GitTree, old: str | None, new: str, *held: str, ref: str | None = None
) -> list[bytes]:
    wanted = {os.fsencode(name) for name in held}
    return unleased_in(tree.open_git(), old, new, lambda path: path in wanted, ref=ref)


@pytest.fixture
def main(repo: GitTree) -> str:
    repo.git("checkout", "-q", "-b", "main")
    return commit(repo, "base", content=BASE)


# -- a commit that is being made ---------------------------------------------------------------


def test_before_the_first_commit_all_that_is_staged_counts(repo: GitTree) -> None:
    assert staged(repo) == []
    repo.track(b"a", b"d/\xff\n")
    assert staged(repo) == [b"a", b"d/\xff\n"]
    assert brought(repo) == set()


def test_only_what_is_staged_counts_with_both_names_of_a_rename(repo: GitTree, main: str) -> None:
    repo.git("mv", "base", "moved")
    repo.write(b"unstaged")
    assert staged(repo) == [b"base", b"moved"]


def test_a_submodule_counts_whatever_the_configuration_says(
    repo: GitTree, main: str, make_tree: Callable[[str], GitTree]
) -> None:
    inner = make_tree("inner")
    inner.git("init", "-q")
    commit(inner, "x")
    repo.git("config", "diff.ignoreSubmodules", "all")
    repo.git("submodule", "add", "-q", os.fsdecode(inner.path), "sub")
    assert staged(repo) == [b".gitmodules", b"sub"]


def test_the_index_of_a_commit_in_the_making_is_the_one_that_counts(
    repo: GitTree, main: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.track(b"a", b"b")
    repo.git("read-tree", "--index-output=.git/partial", "HEAD")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/partial")
    assert staged(repo) == []


def test_what_a_merge_brings_is_known(repo: GitTree, main: str) -> None:
    repo.git("checkout", "-q", "-b", "theirs")
    commit(repo, "theirs")
    commit(repo, "base", content=BASE + "\ntheirs")
    repo.git("checkout", "-q", "main")
    commit(repo, "mine")
    commit(repo, "base", content=BASE + "\nmine")
    repo.git("merge", "-q", "theirs", ok=(1,))
    repo.write(b"base", b"resolved")
    repo.write(b"swept")
    repo.git("add", "-A")
    assert staged(repo) == [b"base", b"swept", b"theirs"]
    assert brought(repo) == {b"base", b"theirs"}


@pytest.mark.parametrize("command", ["cherry-pick", "revert", "rebase"])
def test_what_a_picked_commit_brings_is_known(repo: GitTree, main: str, command: str) -> None:
    repo.git("checkout", "-q", "-b", "theirs")
    repo.write(b"also", b"also")
    theirs = commit(repo, "base", content="theirs")
    if command == "revert":
        commit(repo, "base", content="mine")
        repo.git("revert", "--no-edit", theirs, ok=(1,))
    else:
        repo.git("checkout", "-q", "main")
        mine = commit(repo, "base", content="mine")
        target = ["cherry-pick", theirs] if command == "cherry-pick" else ["rebase", mine, "theirs"]
        repo.git(*target, ok=(1,))
    assert brought(repo) == {b"also", b"base"}


# -- commits that were made --------------------------------------------------------------------


def test_paths_under_no_lease_are_found(repo: GitTree, main: str) -> None:
    commit(repo, "mine", "not\nmine")
    new = commit(repo, "other")
    assert unleased(repo, main, new, "mine") == [b"not\nmine", b"other"]
    assert unleased(repo, main, new, "mine", "not\nmine", "other") == []
    assert unleased(repo, main, main) == []


def test_a_branch_that_begins_or_ends(repo: GitTree, main: str) -> None:
    assert unleased(repo, None, main) == [b"base"]
    assert unleased(repo, "0" * 40, main) == [b"base"]
    assert unleased(repo, main, "0" * 40) == []
    repo.git("checkout", "-q", "-b", "next")
    new = commit(repo, "next")
    assert unleased(repo, None, new, ref="refs/heads/next") == [b"next"]


def test_an_amended_message_is_nothing_new_an_amended_content_is(repo: GitTree, main: str) -> None:
    old = commit(repo, "a")
    repo.git("commit", "-q", "--amend", "-m", "another message")
    new = repo.git("rev-parse", "HEAD").decode().strip()
    assert unleased(repo, old, new) == []
    repo.write(b"b")
    repo.git("add", "-A")
    repo.git("commit", "-q", "--amend", "-m", "more")
    more = repo.git("rev-parse", "HEAD").decode().strip()
    assert unleased(repo, new, more, "a") == [b"b"]


def test_what_was_fetched_is_not_authored(
    repo: GitTree, main: str, make_tree: Callable[[str], GitTree]
) -> None:
    clone = make_tree("clone")
    clone.git("init", "-q", "-b", "main")
    clone.git("pull", "-q", os.fsdecode(repo.path), "main")
    clone.git("remote", "add", "origin", os.fsdecode(repo.path))
    commit(repo, "theirs")
    old = commit(clone, "mine")
    clone.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    merged = clone.git("rev-parse", "HEAD").decode().strip()
    assert unleased(clone, old, merged) == []
    assert unleased(clone, main, merged) == [b"mine"]
    clone.git("reset", "-q", "--hard", old)
    clone.git("rebase", "-q", "origin/main")
    rebased = clone.git("rev-parse", "HEAD").decode().strip()
    assert unleased(clone, old, rebased) == []


def test_what_another_branch_has_is_not_authored(repo: GitTree, main: str) -> None:
    repo.git("checkout", "-q", "-b", "theirs")
    theirs = commit(repo, "theirs")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--ff-only", "theirs")
    assert unleased(repo, main, theirs, ref="refs/heads/main") == []
    # Without the ref's name it cannot be told from a copy made just now.
    assert unleased(repo, main, theirs) == [b"theirs"]


def test_of_a_merge_only_what_neither_side_changed_counts(repo: GitTree, main: str) -> None:
    repo.git("checkout", "-q", "-b", "theirs")
    commit(repo, "base", content="theirs\n" + BASE)
    repo.git("checkout", "-q", "main")
    old = commit(repo, "base", content=BASE + "\nmine")
    repo.git("merge", "-q", "--no-commit", "theirs")
    repo.write(b"swept")
    new = commit(repo)
    assert unleased(repo, old, new, ref="refs/heads/main") == [b"swept"]


@pytest.mark.parametrize(
    ("command", "own"),
    [
        (["cherry-pick", "theirs"], []),
        (["revert", "--no-edit", "main~"], []),
        (["cherry-pick", "-n", "theirs"], ["swept"]),
    ],
)
def test_a_pick_or_a_revert_moves_history(
    repo: GitTree, main: str, command: list[str], own: list[str]
) -> None:
    repo.git("checkout", "-q", "-b", "theirs")
    commit(repo, "base", "theirs", content="theirs\n" + BASE)
    repo.git("checkout", "-q", "main")
    commit(repo, "gone")
    old = commit(repo, "base", content=BASE + "\nmine")
    repo.git(*command)
    for name in own:
        repo.write(os.fsencode(name))
    if own:
        commit(repo)
    new = repo.git("rev-parse", "HEAD").decode().strip()
    assert new != old
    # A commit that is more than the picked one is nothing that was there before.
    expected = [b"base", *map(os.fsencode, own), b"theirs"] if own else []
    assert unleased(repo, old, new, ref="refs/heads/main") == expected
    assert unleased(repo, old, new, *own, ref="refs/heads/main") == []


def test_what_an_amended_commit_held_before_is_no_news(repo: GitTree, main: str) -> None:
    old = commit(repo, "earlier")
    repo.write(b"own")
    repo.git("add", "own")
    repo.git("commit", "-q", "--amend", "-m", "more")
    new = repo.git("rev-parse", "HEAD").decode().strip()
    assert unleased(repo, old, new, "own", ref="refs/heads/main") == []


def test_histories_that_have_nothing_in_common(repo: GitTree, main: str) -> None:
    repo.git("checkout", "-q", "--orphan", "theirs")
    repo.git("rm", "-q", "-rf", ".")
    commit(repo, "theirs")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-commit", "--allow-unrelated-histories", "theirs")
    assert brought(repo) == {b"theirs"}
