"""Git in shared trees that are mounted in other ways: in place, by several users, as linked worktrees."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.sharing import Sharing
from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import NOBODY, environment, git, give
from leasefs.testing.mounted import as_user, mounted
from leasefs.testing.shared_git import Shared, difference, make_shared, state

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture
def base(place: Path, fuse_for_all: None, request: pytest.FixtureRequest) -> Path:
    base: Path = place / request.node.name.replace("/", "-")[:80]
    return base


def test_in_place_git_is_not_served_natively_while_another_shares_the_tree(base: Path) -> None:
    tree = make_shared(base)
    git(tree, "checkout", "-q", ".")
    source = str(tree)
    with mounted(source, str(base / "mount-b"), "--agent", "b", "--lease", "b/**") as b:
        flags = ("--agent", "a", "--lease", "a/**", "--redirects")
        with mounted(source, source, *flags) as a:
            shared = Shared(Path(b.root), a, b)
            before = state(shared.tree)
            assert shared.run("git checkout -q both").returncode
            assert not difference(before, state(shared.tree))
            assert a.report()["redirects"] == []
            assert shared.refusals()[0]["path"] == "b/f"


def test_in_place_git_stops_being_served_natively_when_another_comes(base: Path) -> None:
    """What the tree is beneath is known only by who was there before: a directory that was opened."""
    tree = make_shared(base)
    git(tree, "checkout", "-q", ".")
    beneath = os.open(tree, os.O_PATH)
    flags = ("--agent", "a", "--lease", "a/**", "--redirects")
    with mounted(str(tree), str(tree), *flags) as a:
        os.listdir(tree / ".git")
        eventually(lambda: ".git" in a.report()["redirects"], what="git served natively")
        other = Sharing(beneath)
        eventually(lambda: a.report()["redirects"] == [], what="the end of that")
        assert subprocess.run(
            ["git", "checkout", "-q", "both"], cwd=tree, capture_output=True, check=False
        ).returncode
        assert not os.path.exists(tree / "b/new-both")
        other.close()
        eventually(
            lambda: (
                not subprocess.run(
                    ["git", "checkout", "-q", "both"], cwd=tree, check=False
                ).returncode
            ),
            what="git as in a tree of one's own",
        )
    os.close(beneath)


def test_mounts_of_several_users_know_of_each_other(base: Path) -> None:
    tree = make_shared(base)
    git(tree, "checkout", "-q", ".")
    give(base, NOBODY)
    os.chmod(base, 0o777)
    flags = ("--agent", "a", "--lease", "a/**")
    with (
        mounted(str(tree), str(base / "mount-b"), "--agent", "b", "--lease", "b/**") as b,
        mounted(str(tree), str(base / "mount-a"), *flags, user=NOBODY) as a,
    ):
        before = state(tree)
        done = subprocess.run(
            [*as_user(NOBODY), "git", "-C", a.root, "checkout", "-q", "both"],
            cwd="/",
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        assert done.returncode
        assert "index.lock" in done.stderr
        assert not difference(before, state(tree))
        # And the other way round.
        done = subprocess.run(
            ["git", "checkout", "-q", "mine"], cwd=b.root, env=environment(), check=False, text=True
        )
        assert done.returncode
        assert not difference(before, state(tree))
        assert b.report()["refusals"][-1]["path"] == "a/f"


@pytest.mark.parametrize("kind", [fcntl.LOCK_EX, fcntl.LOCK_SH])
def test_anybodys_lock_on_the_directory_is_not_ours(base: Path, kind: int) -> None:
    """`flock TREE make` is a habit of some; no mount waits for it, nor takes it for another mount."""
    tree = make_shared(base)
    git(tree, "checkout", "-q", ".")
    fd = os.open(tree, os.O_RDONLY)
    fcntl.flock(fd, kind)
    with mounted(str(tree), str(base / "mount-a"), "--agent", "a", "--lease", "a/**") as a:
        assert not subprocess.run(
            ["git", "checkout", "-q", "both"], cwd=a.root, check=False
        ).returncode
        assert not subprocess.run(["flock", "-n", a.root, "true"], check=False).returncode
    os.close(fd)


@pytest.fixture
def linked(base: Path) -> Iterator[Shared]:
    main = make_shared(base)
    git(main, "worktree", "add", "-q", "-b", "linked", "../linked")
    tree = base / "linked"
    with (
        mounted(str(tree), str(base / "mount-a"), "--agent", "a", "--lease", "a/**") as a,
        mounted(str(tree), str(base / "mount-b"), "--agent", "b", "--lease", "b/**") as b,
    ):
        yield Shared(tree, a, b)


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q both",
        "git reset -q --hard both",
        "cd b && git checkout f",
        "git stash -qu",
        "git add -A",
        "git commit -qam x",
        "git merge -q theirs",
        "git worktree add -q b/tree mine",
    ],
)
def test_a_linked_worktree_stays_whole(linked: Shared, command: str) -> None:
    """Its git directory, with all locks, is outside of the mount; so git may not even learn where."""
    common = linked.tree.parent / "source/.git"
    (linked.tree / "b/f").write_text("theirs")
    before = {**_files(linked.tree), **_files(common)}
    done = linked.run(command)
    assert done.returncode
    assert {**_files(linked.tree), **_files(common)} == before
    assert linked.refusals()[0]["path"].startswith("b/")


def test_in_a_linked_worktree_ones_own_passes(linked: Shared) -> None:
    (linked.tree / "b/f").write_text("theirs")
    script = "git status && echo x > a/f && cd a && git add . && git commit -qm x -- . && git checkout mine -- g"
    done = linked.run(script)
    assert not done.returncode, done.stderr
    assert linked.refusals() == []


def _files(tree: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in tree.rglob("*")
        if path.is_file() and "/.git/objects/" not in str(path)
    }
