"""Git in a tree of an agent's own: history moves anywhere, work does not, and what was more than history is told."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.client import api
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import environment, git
from leasefs.testing.shared_git import shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = [pytest.mark.mount, pytest.mark.root]

# The agent holds `a/**`. `theirs` and `both` change what nobody holds; `clash` does so where `main` does as well.
_REPOSITORY = """
git init -q -b main .
mkdir -p a b; seq 9 > a/f; seq 9 > b/f; seq 9 > b/gone; echo top > top
git add -A; git commit -qm base; git branch old
for name in theirs both
do
    git checkout -q -b $name old
    test $name = theirs || sed -i s/2/two/ a/f
    sed -i s/2/two/ b/f; mkdir b/sub; echo $name > b/sub/new; git rm -q b/gone; git add -A; git commit -qm $name
done
git checkout -q -b clash old; sed -i s/9/clash/ b/f; git commit -qam clash
git checkout -q -b more theirs; echo more >> b/sub/new; git commit -qam more
git checkout -q main; sed -i s/8/eight/ b/f; git commit -qam ahead; sed -i s/8/eight/ a/f; git commit -qam own
git clone -q --bare . ../origin.git; git remote add origin ../origin.git; git config pull.rebase false
git push -q origin both:main -f; git fetch -q; git branch -q --set-upstream-to=origin/main main
git diff old theirs > ../theirs.patch; git format-patch -q -1 theirs --stdout > ../theirs.mail
"""


class Own(NamedTuple):
    """A tree, and the only mount of it."""

    tree: Path
    agent: Agent

    def run(self, command: str, cwd: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """A command line of the shell through the mount."""
        return shell(Path(self.agent.root, cwd), self.tree, command, **environ)

    def git(self, *arguments: str, input: str = "") -> str:  # noqa: A002 - as subprocess has it
        """Git through the mount: in place nobody else gets at the tree."""
        return subprocess.run(
            ["git", *arguments],
            cwd=self.agent.root,
            env=environment(),
            input=input,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def told(self) -> set[tuple[str, str]]:
        """Path and how of what the ledger heard of."""
        page = self.agent.ledger.send(api.events(types=["foreign-writes"], limit=100))
        return {
            (change["path"], one["event"]["how"])
            for one in page["events"]
            for change in one["event"]["changes"]
        }

    def all_told(self) -> set[tuple[str, str]]:
        """The same, once all that was done until now is told: a commit that nobody may make comes last."""
        mark = "marked"
        blob = self.git("hash-object", "-w", "a/f").strip()
        tree = self.git("mktree", "--missing", input=f"100644 blob {blob}\t{mark}\n").strip()
        commit = self.git("commit-tree", "-m", mark, tree).strip()
        self.git("update-ref", "refs/heads/zz", commit)  # HEAD and branches are told in this order
        eventually(lambda: (mark, "commit") in self.told(), what="what the mount has to tell")
        return self.told() - {(mark, "commit")}


@pytest.fixture(params=["separate", "in place"])
def own(world: World, request: pytest.FixtureRequest) -> Iterator[Own]:
    tree = Path(world.root, "repo")
    tree.mkdir()
    subprocess.run(
        ["sh", "-ec", _REPOSITORY], cwd=tree, env=environment(), check=True, capture_output=True
    )
    mountpoint = tree
    if request.param == "separate":
        mountpoint = Path(world.root, "mount")
        mountpoint.mkdir()
    with agent_mount(str(tree), str(mountpoint)) as agent:
        agent.claim("a/**")
        yield Own(tree, agent)


MOVES = [
    "git checkout -q theirs",
    "git switch -q both",
    "git checkout -q both -- b a",
    "git reset -q --hard both",
    "git reset -q --hard old && git checkout -q - 2>/dev/null; git reset -q --keep more",
    "git merge -q --no-edit theirs",
    "git merge -q --ff-only both || git reset -q --hard old && git merge -q --ff-only more",
    "git rebase -q theirs",
    "git rebase -q --onto more old",
    "git pull -q --no-edit",
    "git pull -q --rebase",
    "git cherry-pick theirs more",
    "git revert --no-edit HEAD~",
    "git bisect start main more && git bisect reset",
    "git checkout -q theirs && git checkout -q -",
    "git checkout -q --detach more",
    "git read-tree -um HEAD theirs && git reset -q --soft theirs",
    "git stash -q || true; git checkout -q more",
    "cd b && git checkout -q theirs -- f && cd .. && git reset -q --soft theirs && git checkout -q -f",
    "git worktree add -q b/tree more && git worktree remove b/tree",
]


# A mount in place differs by its git directory, which is served natively.
@pytest.mark.parametrize(
    ("own", "command"),
    [("separate", command) for command in MOVES]
    + [("in place", command) for command in MOVES[::5]],
    indirect=["own"],
)
def test_history_moves_to_where_nobody_holds_a_lease(own: Own, command: str) -> None:
    done = own.run(command)
    assert not done.returncode, done.stderr
    if "--" in command.split() and "reset" not in command:
        own.git("reset", "-q", "--hard", "both")
    assert own.git("status", "--porcelain=v2") == ""
    assert own.all_told() == set()
    assert not Path(own.agent.root, ".git/index.lock").exists()


def test_a_conflict_is_told(own: Own) -> None:
    assert own.run("git merge -q clash").returncode
    assert own.all_told() == {("b/f", "git")}


def test_what_git_moved_and_head_does_not_have_is_told(own: Own) -> None:
    assert not own.run("git checkout -q theirs -- b && git rm -q --cached b/sub/new").returncode
    assert own.all_told() == {("b/f", "git"), ("b/sub/new", "git")}


def test_an_alias_moves_history_too(own: Own) -> None:
    done = own.run("cd a && git -c alias.x=y -c alias.y='checkout -q' x both")
    assert not done.returncode, done.stderr
    assert own.all_told() == set()


AUTHORS = [
    'git apply "$TOP/theirs.patch"',
    "git mv a/f b/moved",
    "git mv top a/top",
    "git rm -q b/gone",
    "git checkout-index -f --prefix=b/copy- -a",
]


@pytest.mark.parametrize("command", AUTHORS)
def test_what_git_authors_needs_a_lease(own: Own, command: str) -> None:
    before = own.git("ls-files", "-s")
    Path(own.agent.root, "a/.gitignore").write_text("/.gitignore\n/own\n")
    done = own.run(command)
    assert "Permission denied" in done.stderr
    assert own.git("ls-files", "-s") == before
    assert own.git("status", "--porcelain=v2", "-uall") == ""
    refusals = Path(own.agent.root, ".leasefs/refusals").read_text()
    assert "git[" in refusals
    assert "claim it first" in refusals


def test_a_stash_that_may_not_be_given_back_whole_is_kept(own: Own) -> None:
    lease = own.agent.claim("b/**")
    own.agent.write("a/f", "work")
    own.agent.write("b/f", "work")
    own.git("stash", "-q")
    own.agent.release(lease)
    assert own.run("git stash pop").returncode
    assert own.git("stash", "list").count("\n") == 1
    own.git("reset", "-q", "--hard")
    own.agent.claim("b/**")
    own.git("stash", "pop", "-q")
    assert Path(own.agent.root, "b/f").read_text() == "work"


COMMITS = [
    (
        "echo x > a/new; git add a/new; git update-index --add --cacheinfo 100644,$(git hash-object -w a/new),b/swept; "
        "git commit -q --no-verify -m x"
    ),
    (
        "export GIT_INDEX_FILE=$TOP/index; git read-tree HEAD; "
        "git update-index --add --cacheinfo 100644,$(git hash-object -w a/f),b/swept; "
        "git update-ref refs/heads/main $(git commit-tree -p HEAD -m x $(git write-tree))"
    ),
    (
        "git checkout -q --detach; git update-index --add --cacheinfo 100644,$(git hash-object -w a/f),b/swept; "
        "git commit -q --no-verify -m x"
    ),
]


@pytest.mark.parametrize("command", COMMITS)
def test_a_commit_that_got_past_the_hooks_is_told(own: Own, command: str) -> None:
    done = own.run(command)
    assert not done.returncode, done.stderr
    assert own.all_told() == {("b/swept", "commit")}


HISTORY = [
    "echo x > a/new; git add a; git commit -qm x; git commit -q --amend -m y",
    "echo x > a/new; git add a; git commit -qm x; git rebase -q theirs",
    "git fetch -q; git merge -q --no-ff -m merged origin/main",
    "git checkout -q old; git checkout -q -B main; git merge -q --ff-only more",
    "git branch copy theirs; git checkout -q copy; git branch -f copy2 more",
    "git commit -q --allow-empty -m nothing; git tag x",
    "git pack-refs --all; git gc -q",
]


@pytest.mark.parametrize("command", HISTORY)
def test_commits_of_history_are_not_told(own: Own, command: str) -> None:
    done = own.run(command)
    assert not done.returncode, done.stderr
    assert own.all_told() == set()


@pytest.fixture
def linked(world: World) -> Iterator[Own]:
    """A mount of a linked worktree, whose git directory lies outside."""
    main = Path(world.root, "repo")
    main.mkdir()
    subprocess.run(
        ["sh", "-ec", _REPOSITORY], cwd=main, env=environment(), check=True, capture_output=True
    )
    git(main, "worktree", "add", "-q", "-b", "topic", "../linked")
    Path(world.root, "mount").mkdir()
    with agent_mount(f"{world.root}/linked", f"{world.root}/mount") as agent:
        agent.claim("a/**")
        yield Own(main, agent)


def test_in_a_linked_worktree_its_own_branch_counts(linked: Own) -> None:
    """Others' branches move in the same directory of references."""
    main = linked.tree
    (main / "b/elsewhere").write_text("x")
    git(main, "add", "-A")
    git(main, "commit", "-q", "-m", "somebody else's")
    git(main, "update-ref", "refs/heads/theirs", "main")
    assert not linked.run("git merge -q --no-edit both").returncode
    add = "git update-index --add --cacheinfo 100644,$(git hash-object -w a/f),b/swept"
    assert not linked.run(f"{add}; git commit -q --no-verify -m x").returncode
    eventually(lambda: ("b/swept", "commit") in linked.told(), what="what the mount has to tell")
    assert linked.told() == {("b/swept", "commit")}
