"""Git in a tree that two agents share, each through its own mount: it ends whole or is refused whole."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.testing.mount_trees import environment, git
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]

# Agent A holds `a/**`. `mine` changes that, `theirs` what B holds, `both` both, `up` is what origin has.
_REPOSITORY = """
git init -q -b main .
mkdir -p a/sub b; printf '*.o\\n' > .gitignore
seq 9 > a/f; seq 9 > a/g; seq 9 > a/sub/s; seq 9 > b/f; seq 9 > b/g; echo top > top
git add -A; git commit -qm base; sed -i s/8/eight/ b/g; git commit -qam ahead-b
for name in mine theirs both up
do
    git checkout -q -b $name main
    case $name in mine | both) sed -i s/2/two/ a/f; echo $name > a/new-$name;; esac
    case $name in theirs | both | up) sed -i s/2/two/ b/f; echo $name > b/new-$name;; esac
    git add -A; git commit -qm $name
done
git checkout -q main; sed -i s/8/eight/ a/g; git commit -qam ahead-a
git clone -q --bare . ../origin.git; git remote add origin ../origin.git; git push -q origin up:main -f; git fetch -q
git branch -q --set-upstream-to=origin/main main; git config pull.rebase false
git diff mine~ mine > ../mine.patch; git diff both~ both > ../both.patch
git format-patch -q -1 mine --stdout > ../mine.mail; git format-patch -q -1 both --stdout > ../both.mail
echo stashed >> b/g; git stash -q; echo stashed >> a/sub/s; git stash -q
echo mine >> a/f; echo theirs >> b/f; echo new > b/untracked; echo x > a/x.o; echo x > b/x.o
"""


class Shared(NamedTuple):
    """A tree with two mounts; `a` is the one that commands run in."""

    tree: Path
    a: Mounted
    b: Mounted

    def run(self, command: str, cwd: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """A command line of the shell through A's mount."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=Path(self.a.root, cwd),
            env=environment() | {"GIT_EDITOR": "true", "TOP": str(self.tree.parent)} | environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def refusals(self) -> list[dict[str, str]]:
        """What `.leasefs/refusals.json` lists, newest first."""
        found: list[dict[str, str]] = json.loads(
            Path(self.a.root, ".leasefs/refusals.json").read_text()
        )
        return found


def state(tree: Path) -> dict[str, object]:
    """Tree, index, references, reflogs, and whatever else lies in the git directory but objects."""
    found: dict[str, object] = {}
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        if name.startswith(".git/objects/"):
            continue
        known = path.lstat()
        content: object = path.read_bytes() if path.is_file() else None
        # Git may write the same index anew to refresh its times; its entries are compared.
        found[name] = known.st_mode, content
    found[".git/index"] = git(tree, "ls-files", "-s", "-z"), git(tree, "ls-files", "-v", "-z")
    return found


def difference(before: dict[str, object], after: dict[str, object]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def make(base: Path) -> Path:
    tree = base / "source"
    tree.mkdir(parents=True)
    for name in ("mount-a", "mount-b"):
        (base / name).mkdir()
    subprocess.run(
        ["sh", "-ec", _REPOSITORY], cwd=tree, env=environment(), check=True, capture_output=True
    )
    return tree


def mount_both(base: Path, *, clean: bool = False) -> Iterator[Shared]:
    tree = make(base)
    if clean:
        git(tree, "checkout", "-q", ".")
    with (
        mounted(str(tree), str(base / "mount-a"), "--agent", "a", "--lease", "a/**") as a,
        mounted(str(tree), str(base / "mount-b"), "--agent", "b", "--lease", "b/**") as b,
    ):
        yield Shared(tree, a, b)


@pytest.fixture(scope="module")
def standing(place: Path) -> Iterator[Shared]:
    """For commands that change nothing."""
    yield from mount_both(place / "standing")


@pytest.fixture
def shared(place: Path, request: pytest.FixtureRequest) -> Iterator[Shared]:
    yield from mount_both(place / request.node.name.replace("/", "-")[:80])


@pytest.fixture
def clean(place: Path, request: pytest.FixtureRequest) -> Iterator[Shared]:
    yield from mount_both(place / request.node.name.replace("/", "-")[:80], clean=True)


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
