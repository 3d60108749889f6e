"""Git in a tree that two agents share, each through its own mount: it ends whole or is refused whole."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.testing.shared_git import Shared, difference, shared_tree, state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture(scope="module")
def standing(place: Path) -> Iterator[Shared]:
    """For commands that change nothing."""
    with shared_tree(place / "standing") as tree:
        yield tree


@pytest.fixture
def shared(place: Path, request: pytest.FixtureRequest) -> Iterator[Shared]:
    with shared_tree(place / request.node.name.replace("/", "-")[:80]) as tree:
        yield tree


@pytest.fixture
def clean(place: Path, request: pytest.FixtureRequest) -> Iterator[Shared]:
    with shared_tree(place / request.node.name.replace("/", "-")[:80], clean=True) as tree:
        yield tree


class Refused(NamedTuple):
    """`paths`: what of the refusals must be named; "." where nobody can tell."""

    command: str
    paths: str
    cwd: str = ""


REFUSED = [
    Refused("git checkout both", "b/f"),
    Refused("git checkout -f theirs", "b/f b/new-theirs"),
    Refused("git checkout .", "b/f"),
    Refused("git checkout HEAD~ -- b/f", "b/f"),
    Refused("git checkout -qfB x theirs", "b/f b/new-theirs"),
    Refused("git switch both", "b/f"),
    Refused("git switch -qfd theirs", "b/f b/new-theirs"),
    Refused("git reset --hard", "b/f"),
    Refused("git reset -q --hard theirs", "b/f b/new-theirs"),
    Refused("git reset --merge theirs", "b/f"),
    Refused("git reset --keep both", "b/f"),
    Refused("git reset --soft theirs", "b/f"),
    Refused("git reset theirs", "b/f"),
    Refused("git restore .", "b/f"),
    Refused("git restore -SW .", "b/f"),
    Refused("git restore --source=theirs b", "b/f"),
    Refused("git stash", "b/f"),
    Refused("git stash push -qu", "b/f b/untracked"),
    Refused("git stash pop stash@{1}", "b/g"),
    Refused("git stash apply 1", "b/g"),
    Refused("git stash branch x stash@{1}", "b/g"),
    Refused("git clean -fd", "b/untracked"),
    Refused("git clean -qfdx", "b/untracked"),
    Refused("git rebase --autostash theirs", "b/f"),
    Refused("git rebase --autostash both", "b/f"),
    Refused("git rebase -qi --autostash both", "b/f"),
    Refused("git merge theirs", "b/f"),
    Refused("git merge --no-commit --no-ff both", "b/f"),
    Refused("git merge --squash both", "b/new-both"),
    Refused("git pull", "b/f"),
    Refused("git pull --rebase --autostash", "b/f"),
    Refused("git pull -q --no-rebase origin main", "b/f"),
    Refused('git am "$TOP/both.mail"', "b/f"),
    Refused('git am -3 < "$TOP/both.mail"', "."),
    Refused("git cherry-pick theirs", "b/f"),
    Refused("git cherry-pick -n both", "b/f"),
    Refused("git cherry-pick mine theirs", "b/f"),
    Refused("git revert --no-edit HEAD~", "b/g"),
    Refused("git read-tree -um HEAD theirs", "b/f"),
    Refused("git read-tree --reset -u HEAD", "b/f"),
    Refused("git add -A && git commit -m x", "b/f b/untracked"),
    Refused("git add .", "b/f"),
    Refused("git add b/f", "b/f"),
    Refused("git add -f b/x.o", "b/x.o"),
    Refused("git update-index --add b/x.o", "b/x.o"),
    Refused('git apply --cach "$TOP/both.patch"', "b/f"),
    Refused("git commit -am x", "b/f"),
    Refused("git commit -qm x b/f", "b/f"),
    Refused("git commit -m x -i a/f b/f", "b/f"),
    Refused("git mv a/f b/moved", "b/moved"),
    Refused("git mv b/g a/moved", "b/g"),
    Refused("git rm -q b/g", "b/g"),
    Refused("git rm -rqf a b", "b/f b/g"),
    Refused("git rm --cached b/g", "b/g"),
    Refused('git apply "$TOP/both.patch"', "b/f"),
    Refused('git apply --index "$TOP/both.patch"', "b/f"),
    Refused('git apply --cached "$TOP/both.patch"', "b/f"),
    Refused("git worktree add b/tree -b other", "b/tree/"),
    Refused("git worktree add b/tree mine", "b/tree/"),
    Refused("git bisect start theirs main", "b/f b/new-theirs"),
    Refused("git checkout-index -fa", "b/f"),
    Refused("git filter-branch --tree-filter true", "."),
    Refused("git commit --amend --no-edit -m x --allow-empty -i b/f", "b/f"),
    # However it is written.
    Refused("git -c alias.x='reset --hard' x", "b/f"),
    Refused("git -c alias.x='!git reset --hard' x", "b/f"),
    Refused("git -c alias.x=y -c alias.y='stash -q' x", "b/f"),
    Refused("cd / && git -C $OLDPWD checkout -qf both", "b/f"),
    Refused("git -C a -C .. reset --hard", "b/f"),
    Refused("git reset --hard", "b/f", "a/sub"),
    Refused("git checkout ../../b", "b/f", "a/sub"),
    Refused("git --git-dir=.git --work-tree=. checkout -f both", "b/f"),
    Refused("GIT_DIR=$PWD/.git GIT_WORK_TREE=$PWD git checkout -f both", "b/f"),
    Refused("git diff > a/own.patch; git checkout -f both > a/own.patch", "b/f"),
    Refused("echo x > a/own.patch; exec git checkout -f both", "b/f"),
    Refused("echo 'git reset --hard' | sh", "b/f"),
    Refused("xargs -a <(echo --hard) git reset", "b/f"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.command)
def test_a_command_that_would_touch_anothers_paths_changes_nothing(
    standing: Shared, case: Refused
) -> None:
    before = state(standing.tree)
    known = len(standing.a.report()["refusals"])
    done = standing.run(case.command, case.cwd)
    changed = difference(before, state(standing.tree)) - {".git/FETCH_HEAD", "a/own.patch"}
    assert not changed, done.stderr
    assert done.returncode, done.stdout
    new = standing.refusals()[: len(standing.a.report()["refusals"]) - known]
    named = {one["path"] for one in new}
    assert set(shlex.split(case.paths)) <= named, (new, done.stderr)
    unknown = {one["path"] for one in new if one["code"] == "GIT_UNKNOWN"}
    assert unknown == set(shlex.split(case.paths)) & {"."}
    assert {one["code"] for one in new} <= {"GIT_COMMAND", "GIT_UNKNOWN"}
    assert not any(path == "a" or path.startswith("a/") for path in named)
    assert all(one["next"] for one in new)


OWN = [
    "git status",
    "git diff",
    "git fetch -q",
    "git checkout -b new",
    "git checkout a",
    "git restore a",
    "cd a && git restore f ../a/g",
    "git checkout mine -- a",
    "git checkout HEAD~ -- a/g",
    "git stash push -q -- a",
    "cd a/sub && git stash -q -- .. && git stash pop -q",
    "git stash pop -q",
    "git clean -fdx a",
    "git reset -- a",
    'git apply --exclude=a/f "$TOP/mine.patch"',
    "git add a && git commit -qm x",
    "git add a; git commit -qm x -- a",
    "cd a && git add -A . && git commit -qm x -- .",
    "git commit -qm x a/f && git commit -q --amend -m y",
    "yes | git add -p a && git commit -qm x",
    "git mv a/g a/moved && git commit -qm moved",
    "git rm -q a/g && git commit -qm removed",
    'git worktree add -q -b wt "$TOP/wt"',
    "git add -f a/x.o && git commit -qm x a/x.o",
    "git update-index --add --cacheinfo 100644 $(git hash-object -w a/f) a/made",
    "git tag x",
    "git branch x && git branch -D x",
    "git gc -q",
    "git -c alias.x='commit -qm x' x a/f",
    "git diff > a/own.patch",
]

# These want nothing uncommitted: neither agent has.
OWN_IN_A_CLEAN_TREE = [
    "git checkout mine",
    "git switch mine",
    "git rebase -q mine",
    "git rebase -q -x 'git status' mine",
    "git merge -q --no-edit mine",
    "git merge --no-ff -qm merged mine",
    "git cherry-pick mine",
    "git revert --no-edit HEAD",
    "git reset --keep HEAD~",
    "git reset -q --hard HEAD~",
    'git am -q "$TOP/mine.mail"',
    'git apply "$TOP/mine.patch"',
    "git read-tree -um HEAD mine",
]


def passes(shared: Shared, command: str) -> None:
    before = state(shared.tree)
    done = shared.run(command)
    assert not done.returncode, (done.stderr, shared.refusals())
    changed = difference(before, state(shared.tree))
    assert not {name for name in changed if name.startswith("b") or name.endswith(".lock")}
    assert not shared.refusals()


@pytest.mark.parametrize("command", OWN)
def test_a_command_that_stays_inside_ones_leases_passes(shared: Shared, command: str) -> None:
    passes(shared, command)


@pytest.mark.parametrize("command", OWN_IN_A_CLEAN_TREE)
def test_it_passes_in_a_clean_tree(clean: Shared, command: str) -> None:
    passes(clean, command)
