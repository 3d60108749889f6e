"""What becomes of intents in each situation that git can bring about, through a real mount (P8).

Of each one the ledger has to know, at every stop, exactly what is uncommitted and what has not landed.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import World, own_world
from leasefs.testing.uncommitted import git, ledger_intents, new_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.client import api

pytestmark = [pytest.mark.mount, pytest.mark.chaos]


class Place:
    """A mounted tree in which somebody works."""

    def __init__(self, agent: Agent, source: str) -> None:
        self.agent = agent
        self.source = source
        self.lease = agent.claim("**", ttl_s=60)

    def git(self, *arguments: str) -> str:
        """Through the mount, as agents do; retried while the mount looks at what they did."""
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments],
            cwd=self.agent.root,
            env=os.environ | {"GIT_EDITOR": "true"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout.strip()

    def write(self, *paths: str, content: str | None = None) -> None:
        for path in paths:
            full = Path(self.agent.root, path)
            full.parent.mkdir(parents=True, exist_ok=True)
            before = full.read_text() if full.exists() else ""
            full.write_text(before + "more\n" if content is None else content)

    def commit(self, *paths: str) -> None:
        """Change these paths and commit them."""
        self.write(*paths)
        self.git("add", "-A")
        self.git("commit", "-qm", "of " + " ".join(paths))

    def stands(self, dirty: str = "", committed: str = "") -> None:
        """The ledger comes to know exactly this."""
        wanted = (set(dirty.split()), set(committed.split()))
        link = self.agent.ledger
        known: tuple[set[str], set[str]] = (set(), set())

        def same() -> bool:
            nonlocal known
            known = (set(ledger_intents(link)), set(ledger_intents(link, "committed")))
            return known == wanted

        try:
            eventually(same, 15)
        except AssertionError:
            raise AssertionError(f"dirty, committed: {known}, not {wanted}") from None


def commit(at: Place) -> None:
    at.write("a", "new")
    at.stands(dirty="a new")
    at.git("add", "a", "new")
    at.stands(dirty="a new")
    at.git("commit", "-qm", "x")
    at.stands(committed="a new")
    at.git("push", "-q")
    at.stands()


def amend(at: Place) -> None:
    at.commit("a")
    at.stands(committed="a")
    at.write("a", "b")
    at.stands(dirty="a b")
    at.git("commit", "-qa", "--amend", "-m", "again")
    at.stands(committed="a b")
    at.git("commit", "-q", "--amend", "-m", "only another message")
    at.stands(committed="a b")
    at.git("push", "-q")
    at.stands()


def commit_path(at: Place) -> None:
    at.write("a", "b")
    at.git("add", "b")
    at.git("commit", "-qm", "x", "--", "a")
    at.stands(dirty="b", committed="a")


def partial_staging(at: Place) -> None:
    at.write("a")
    at.git("add", "a")
    at.write("a")
    at.git("commit", "-qm", "half of it")
    at.stands(dirty="a")
    at.git("commit", "-qam", "the rest")
    at.stands(committed="a")


def stash(at: Place) -> None:
    at.write("a", "new")
    at.git("rm", "-q", "gone")
    at.stands(dirty="a new gone")
    at.git("stash", "push", "-q", "-u")
    at.stands()
    at.git("stash", "pop", "-q")
    at.stands(dirty="a new gone")


def reset_soft(at: Place) -> None:
    at.commit("a", "new")
    at.stands(committed="a new")
    at.git("reset", "-q", "--soft", "HEAD~1")
    at.stands(dirty="a new")
    at.git("commit", "-qm", "again")
    at.stands(committed="a new")


def reset_hard(at: Place) -> None:
    at.commit("a")
    at.stands(committed="a")
    at.write("b", "new")
    at.stands(dirty="b new", committed="a")
    at.git("reset", "-q", "--hard", "HEAD~1")
    at.stands(dirty="new")


def rebase(at: Place) -> None:
    at.git("switch", "-q", "-c", "feature")
    at.commit("a")
    at.commit("new")
    at.stands(committed="a new")
    before = at.git("rev-parse", "HEAD")
    at.git("rebase", "-q", "origin/ahead")
    assert at.git("rev-parse", "HEAD") != before
    # What git brought in has not landed either.
    at.stands(committed="a new ahead clash")
    commits = {one["commit"] for ones in known(at, "committed") for one in ones}
    assert commits <= set(at.git("rev-list", "HEAD").split()), "told by their new names"


def switch_with_dirty_files(at: Place) -> None:
    at.write("a", "new")
    at.stands(dirty="a new")
    at.git("switch", "-q", "-c", "other")
    at.stands(dirty="a new")
    at.git("switch", "-q", "-c", "there", "origin/ahead")
    at.stands(dirty="a new")
    assert Path(at.source, "ahead").exists()


def merge(at: Place) -> None:
    at.commit("a")
    at.write("b")
    at.git("merge", "-q", "--no-ff", "-m", "both", "origin/ahead")
    at.stands(dirty="b", committed="a ahead clash")
    at.git("push", "-q", "origin", "HEAD:main")
    at.stands(dirty="b")


def merge_with_a_conflict(at: Place) -> None:
    at.write("clash", content="ours\n")
    at.git("commit", "-qam", "ours")
    assert subprocess.run(
        ["git", "merge", "-q", "origin/ahead"], cwd=at.agent.root, capture_output=True, check=False
    ).returncode
    at.stands(dirty="clash ahead")
    at.write("clash", content="both\n")
    at.git("commit", "-qam", "resolved")
    at.stands(committed="clash ahead")


def detached_head(at: Place) -> None:
    at.git("checkout", "-q", "--detach")
    at.commit("a")
    at.stands(committed="a")
    at.git("checkout", "-q", "main")
    at.stands()


def renamed_and_retyped(at: Place) -> None:
    root = at.agent.root
    os.rename(f"{root}/a", f"{root}/moved")
    os.rename(f"{root}/deep", f"{root}/elsewhere")
    os.unlink(f"{root}/b")
    os.symlink("moved", f"{root}/b")
    os.unlink(f"{root}/gone")
    at.write("gone/below")
    os.chmod(f"{root}/clash", 0o755)
    paths = "a moved b gone gone/below clash deep/c elsewhere/c"
    at.stands(dirty=paths)
    kinds = {one["path"]: one["kind"] for ones in known(at, "dirty") for one in ones}
    assert (kinds["deep/c"], kinds["elsewhere/c"]) == ("delete", "create")
    at.git("add", "-A")
    at.git("commit", "-qm", "all of it")
    at.stands(committed=paths)


def by_hand(at: Place) -> None:
    """A path whose bytes equal HEAD again is clean, however that came about."""
    before = Path(at.source, "a").read_text()
    at.write("a", "new")
    os.chmod(f"{at.agent.root}/b", 0o755)
    at.stands(dirty="a b new")
    at.write("a", content=before)
    os.chmod(f"{at.agent.root}/b", 0o644)
    os.unlink(f"{at.agent.root}/new")
    at.stands()


def sparse_checkout(at: Place) -> None:
    at.write("a")
    at.git("sparse-checkout", "set", "--no-cone", "/a", "/b", "/clash", "/gone", "/.gitignore")
    assert not Path(at.source, "deep/c").exists()
    at.stands(dirty="a")


def ignored(at: Place) -> None:
    at.write("x.log", "a")
    at.stands(dirty="a")
    os.rename(f"{at.agent.root}/x.log", f"{at.agent.root}/kept")
    at.stands(dirty="a kept")
    os.rename(f"{at.agent.root}/kept", f"{at.agent.root}/y.log")
    at.stands(dirty="a")


def ignored_since(at: Place) -> None:
    """Nothing more can become of it: git would not commit it, and no release could wait for that."""
    at.write("a", "built/x", "deep/log", "kept.tmp")
    at.git("add", "-f", "kept.tmp")
    at.stands(dirty="a built/x deep/log kept.tmp")
    at.write(".gitignore", content="*.log\nbuilt/\n/deep/log\n*.tmp\n")
    at.git("add", ".gitignore")
    at.git("commit", "-qm", "ignored", "--", ".gitignore")
    at.stands(dirty="a kept.tmp", committed=".gitignore")


ORDINARY = (
    commit,
    amend,
    commit_path,
    partial_staging,
    stash,
    reset_soft,
    reset_hard,
    rebase,
    switch_with_dirty_files,
    merge,
    merge_with_a_conflict,
    detached_head,
    renamed_and_retyped,
    by_hand,
    sparse_checkout,
    ignored,
    ignored_since,
)


def known(at: Place, state: str) -> list[list[api.Body]]:
    return list(ledger_intents(at.agent.ledger, state).values())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


def mounted(world: World, source: str) -> Any:
    os.mkdir(f"{world.root}/mount")
    return agent_mount(source, f"{world.root}/mount")


def make_origin(root: str) -> None:
    new_repository(root)
    for name in ("a", "b", "gone", "clash", "deep/c"):
        path = Path(root, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name}\n" * 3)
    Path(root, ".gitignore").write_text("*.log\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "switch", "-q", "-c", "ahead")
    Path(root, "ahead").write_text("ahead\n")
    Path(root, "clash").write_text("theirs\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "ahead")
    # On another branch than the one that is pushed to.
    git(root, "branch", "-q", "-f", "parked")
    git(root, "switch", "-q", "parked")


def clone(world: World, source: str) -> None:
    make_origin(f"{world.root}/origin")
    git(world.root, "clone", "-q", "-b", "main", f"{world.root}/origin", source)
    identify(source)
    git(source, "remote", "set-head", "origin", "main")


def identify(source: str) -> None:
    git(source, "config", "user.name", "t")
    git(source, "config", "user.email", "t@example.org")


@pytest.mark.parametrize("situation", ORDINARY, ids=lambda one: one.__name__)
def test_in_a_clone(world: World, situation: Callable[[Place], None]) -> None:
    source = f"{world.root}/source"
    clone(world, source)
    with mounted(world, source) as agent:
        situation(Place(agent, source))


@pytest.mark.parametrize("situation", [commit, stash, reset_soft], ids=lambda one: one.__name__)
def test_in_a_linked_worktree(world: World, situation: Callable[[Place], None]) -> None:
    """`.git` is a file there."""
    main, source = f"{world.root}/main-tree", f"{world.root}/source"
    clone(world, main)
    git(main, "switch", "-q", "-c", "elsewhere")
    git(main, "worktree", "add", "-q", source, "main")
    with mounted(world, source) as agent:
        situation(Place(agent, source))


def test_in_a_submodule(world: World) -> None:
    inner, source = f"{world.root}/inner", f"{world.root}/source"
    new_repository(inner)
    Path(inner, "x").write_text("x\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "inner")
    clone(world, source)
    git(source, "submodule", "add", "-q", inner, "sub")
    git(source, "commit", "-qm", "with sub")
    identify(f"{source}/sub")
    with mounted(world, source) as agent:
        at = Place(agent, source)
        at.write("sub/x", "sub/new", "a")
        at.stands(dirty="sub/x sub/new a")
        at.git("-C", "sub", "commit", "-qam", "in sub")
        at.stands(dirty="sub/new a", committed="sub/x")


def test_before_the_first_commit(world: World) -> None:
    source = f"{world.root}/source"
    new_repository(source)
    with mounted(world, source) as agent:
        at = Place(agent, source)
        at.write("a", "b")
        at.stands(dirty="a b")
        at.git("add", "a")
        at.stands(dirty="a b")
        at.git("commit", "-qm", "first")
        at.stands(dirty="b")


def test_without_git_intents_end_with_the_release(world: World) -> None:
    source = f"{world.root}/source"
    os.mkdir(source)
    with mounted(world, source) as agent:
        at = Place(agent, source)
        at.write("a", "deep/b")
        at.stands(dirty="a deep/b")
        agent.release(at.lease)
        at.stands()
