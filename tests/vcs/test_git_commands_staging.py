from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.testing.judged import (
    copy_history,
    process_of,
    really_changed,
    shell,
    snapshot,
    work,
)
from leasefs.vcs.git_commands import Nothing, Paths, Unknown, staged_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree
    from leasefs.vcs.git_commands import Effect


@pytest.fixture
def tree(history: bytes, make_tree: Callable[[str], GitTree]) -> GitTree:
    made = make_tree("tree")
    copy_history(history, made.path)
    work(made.path)
    return made


def foretold(tree: GitTree, command: str, cwd: bytes = b"") -> Effect:
    before = snapshot(tree.path, with_git=True)
    effect = staged_by(process_of(tree, command, cwd), tree.open_git(), tree.open_root())
    assert snapshot(tree.path, with_git=True) == before
    return effect


class Case(NamedTuple):
    """`expected`: the paths, sorted, by words; `work()` has staged `st` before and edited `d/e/f` and `exec`."""

    command: str
    expected: str
    first: str = ""
    cwd: bytes = b""


EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
SUBMODULE = (
    "git init -q sm; cat .git/config >> sm/.git/config; git -C sm commit -q --allow-empty -m 1; git add sm; "
    "git commit -qm sm -- sm; git -C sm commit -q --allow-empty -m 2"
)

ADDS = [
    Case("git add -A", "d/e/f exec u ud/deep/v"),
    Case("git add --al", "d/e/f exec u ud/deep/v"),
    Case("git add .", "d/e/f exec u ud/deep/v"),
    Case("git add .", "d/e/f", cwd=b"d"),
    Case("git add -u", "d/e/f exec"),
    Case("git add -vu :/d", "d/e/f", cwd=b"n"),
    Case("git stage u exec", "exec u"),
    Case("git add -f ud", "ud/deep/v ud/x.o"),
    Case("git add -N u", "u"),
    Case(
        "git add --pathspec-from-file=list",
        "u",
        "echo u > list; git add list; git commit -qm list -- list",
    ),
    Case("git -c alias.sweep='add -A' sweep", "d/e/f exec u ud/deep/v"),
    Case("git rm --cached -q keep", "keep"),
    Case("git rm -f d/b", "d/b"),
    Case("git mv gone went", "gone went"),
    Case("git update-index --add u exec", "exec u"),
    Case(f"git update-index --add --cacheinfo 100644 {EMPTY} u", "u"),
    Case(f"git update-index --add --cacheinfo 100644,{EMPTY},u", "u"),
    Case("git update-index --index-version 4 exec", "exec"),
    Case("git update-index --chmod +x keep", "keep"),
    Case("git apply --cached p", "far1", "git diff main far -- far1 > p"),
    Case("git apply --cach p", "far1", "git diff main far -- far1 > p"),
    Case("git add -A", "d/e/f exec sm u ud/deep/v", SUBMODULE),
    # Only its times say that it changed.
    Case("git add .", "d/e/f exec u ud/deep/v", "touch -d 2001-01-01 keep"),
]

COMMITS = [
    Case("git commit -m x", "st"),
    Case("git commit -qam x", "d/e/f exec st"),
    Case("git commit -m x -- exec", "exec"),
    Case("git commit -om x exec", "exec"),
    Case("git commit -im x exec", "exec st"),
    Case("git ci", "d/e/f exec st", "git config alias.ci 'commit -a -m x'"),
]

# What the commit holds that is made anew counts as well: `main` changed these last.
AMENDS = [
    Case("git commit --amend --no-edit", "a n/new st"),
    Case("git commit --amend -m x --only", "a n/new"),
    Case("git commit --amend --no-edit -- exec", "a exec n/new"),
]

UNDOES = [
    Case("git reset", "st"),
    Case("git reset -- a", ""),
    Case("git reset st", "st"),
    Case("git reset old -- a st", "a st"),
    Case("git reset --soft old", "a n/new"),
    Case("git reset -q old", "a n/new st"),
    Case("git reset --keep old", "a n/new st"),
    Case("git restore --staged .", "st"),
    Case("git restore -S -s old a", "a"),
    Case("git restore --staged .", "", cwd=b"d"),
    Case("git read-tree HEAD", "st"),
    Case("git read-tree old", "a n/new st"),
    Case("git read-tree --prefix=pre old:d", "pre/b pre/e/f"),
]

QUIET = [
    "git add -n .",
    "git add --refresh .",
    "git add",
    "git commit --dry-run -a",
    "git status",
    "git update-index --index-version 4",
    "git update-index --refresh",
    "git rm -n a",
    "git restore .",
    "git read-tree -n old",
    "git apply p",
    "git merge side",
]


def _in_index(tree: GitTree) -> set[bytes]:
    listed = tree.git(
        "diff-index",
        "--cached",
        "-z",
        "--name-only",
        "--no-renames",
        "--ita-visible-in-index",
        "HEAD",
    )
    return set(listed.split(b"\0")[:-1])


@pytest.mark.parametrize("case", ADDS, ids=lambda case: case.command)
def test_what_a_command_stages_is_foretold(tree: GitTree, case: Case) -> None:
    shell(tree.path, case.first)
    effect = foretold(tree, case.command, case.cwd)
    before = _in_index(tree)
    really_changed(tree, case.command, case.cwd)
    expected = {word.encode() for word in case.expected.split()}
    assert effect == Paths(frozenset(expected))
    assert _in_index(tree) - before == expected


def test_what_is_staged_may_be_staged_anew(tree: GitTree) -> None:
    for words in ("-g", "--again"):
        assert foretold(tree, f"git update-index {words}") == Paths(frozenset({b"st"}))


@pytest.mark.parametrize("case", COMMITS, ids=lambda case: case.command)
def test_what_a_command_commits_is_foretold_whoever_staged_it(tree: GitTree, case: Case) -> None:
    shell(tree.path, case.first)
    expected = {word.encode() for word in case.expected.split()}
    assert foretold(tree, case.command) == Paths(frozenset(expected))
    head = tree.git("rev-parse", "HEAD").decode().strip()
    really_changed(tree, case.command)
    changed = tree.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, "HEAD")
    assert set(changed.split(b"\0")[:-1]) == expected


@pytest.mark.parametrize("case", AMENDS, ids=lambda case: case.command)
def test_an_amended_commit_is_made_anew_with_all_that_it_holds(tree: GitTree, case: Case) -> None:
    expected = {word.encode() for word in case.expected.split()}
    assert foretold(tree, case.command) == Paths(frozenset(expected))
    really_changed(tree, case.command)
    changed = tree.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", "HEAD~", "HEAD")
    assert set(changed.split(b"\0")[:-1]) == expected


@pytest.mark.parametrize("case", UNDOES, ids=lambda case: f"{case.cwd.decode()} {case.command}")
def test_what_leaves_the_index_or_the_branch_is_foretold(tree: GitTree, case: Case) -> None:
    expected = {word.encode() for word in case.expected.split()}
    assert foretold(tree, case.command, case.cwd) == Paths(frozenset(expected))
    before = tree.git("ls-files", "-s", "-z"), tree.git("rev-parse", "HEAD")
    really_changed(tree, case.command, case.cwd)
    entries = {
        entry.partition(b"\t")[2]
        for entry in set(before[0].split(b"\0"))
        ^ set(tree.git("ls-files", "-s", "-z").split(b"\0"))
    }
    lost = tree.git("diff-tree", "-r", "-z", "--name-only", before[1].decode().strip(), "HEAD")
    assert entries | set(lost.split(b"\0")[:-1]) == expected


@pytest.mark.parametrize("command", QUIET)
def test_what_stages_nothing(tree: GitTree, command: str) -> None:
    shell(tree.path, "git diff main far -- far1 > p")
    assert foretold(tree, command) == Nothing()


@pytest.mark.parametrize(
    "command",
    [
        "git add --pathspec-from-file=-",
        "git update-index --index-info",
        "git update-index --std",
        "git commit --unheard-of",
    ],
)
def test_what_cannot_be_told(tree: GitTree, command: str) -> None:
    assert isinstance(foretold(tree, command), Unknown)


def test_a_merge_is_answered_for_by_what_its_agent_changed_in_it(tree: GitTree) -> None:
    shell(
        tree.path,
        "git stash -q; git merge -q --no-commit side; git merge --abort; git merge -q --no-commit --no-ff side",
    )
    shell(tree.path, "echo own > own; git add own; echo more >> s/side; git add s/side")
    expected = Paths(frozenset({b"own", b"s/side"}))
    assert foretold(tree, "git commit -m merged") == expected
    assert foretold(tree, "git merge --continue") == expected


def test_commands_that_go_on_commit_what_is_staged(tree: GitTree) -> None:
    shell(
        tree.path,
        "git stash -q; git cherry-pick clash || true; git add a; echo x > other; git add other",
    )
    for command in ("git cherry-pick --continue", "git rebase --con", "git commit -m x"):
        assert foretold(tree, command) == Paths(frozenset({b"a", b"other"})), command
