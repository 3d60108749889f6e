"""Git in a shared tree when things are odd: the index changes meanwhile, numbers lie, the tree is made otherwise."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import environment, git
from leasefs.testing.mounted import mounted
from leasefs.testing.shared_git import Shared, difference, make_shared, shared_tree, state

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture
def shared(place: Path, request: pytest.FixtureRequest) -> Iterator[Shared]:
    with shared_tree(place / request.node.name.replace("/", "-")[:80], clean=True) as tree:
        yield tree


def hook(shared: Shared, name: str, script: str) -> None:
    path = shared.tree / ".git/hooks" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_what_another_stages_while_a_commit_is_made_is_not_swept_in(shared: Shared) -> None:
    """The command was judged when it began; git reads the index once more after the hook."""
    (shared.tree / "b/f").write_text("theirs")
    hook(shared, "pre-commit", f"unset GIT_INDEX_FILE; git -C {shared.tree} add b/f")
    (shared.tree / "a/f").write_text("mine")
    git(shared.tree, "add", "a/f")
    before = state(shared.tree)
    done = shared.run("git commit -qm mine")
    assert done.returncode
    assert difference(before, state(shared.tree)) == {".git/index", ".git/COMMIT_EDITMSG"}
    assert shared.refusals()[0]["path"] == "b/f"
    (shared.tree / ".git/hooks/pre-commit").unlink()
    done = shared.run("git commit -qm mine -- a/f")
    assert not done.returncode, (done.stderr, shared.refusals())
    assert git(shared.tree, "diff", "--cached", "--name-only").split() == ["b/f"]


def test_plumbing_moves_no_branch_to_what_another_holds(shared: Shared) -> None:
    before = state(shared.tree)
    script = (
        "export GIT_INDEX_FILE=$TOP/index; git read-tree HEAD; "
        "git update-index --add --cacheinfo 100644,$(git hash-object -w a/f),b/swept; "
        "git update-ref refs/heads/main $(git commit-tree -p HEAD -m x $(git write-tree))"
    )
    done = shared.run(script)
    assert done.returncode
    assert not difference(before, state(shared.tree)), done.stderr
    assert {one["path"] for one in shared.refusals()} == {"b/swept"}


def test_an_index_lock_that_lies_there_already_stays(shared: Shared) -> None:
    lock = shared.tree / ".git/index.lock"
    lock.write_text("somebody else's")
    before = state(shared.tree)
    for command in ("git add a", "git reset --hard theirs", "git commit -qm x --allow-empty"):
        assert shared.run(command).returncode
    assert not difference(before, state(shared.tree))
    lock.unlink()
    assert not shared.run("git commit -qm x --allow-empty").returncode


def test_many_commands_at_once(shared: Shared) -> None:
    for side in ("a", "b"):
        for at in range(8):
            (shared.tree / side / f"new-{at}").write_text(side)
    before = state(shared.tree)
    processes = [
        subprocess.Popen(
            ["git", *words.split()],
            cwd=shared.a.root,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for at in range(8)
        for words in (f"add b/new-{at}", "reset -q --hard both", "stash -q -u", f"add a/new-{at}")
    ]
    for process in processes:
        process.wait(timeout=60)
    changed = difference(before, state(shared.tree))
    assert changed <= {".git/index"}
    staged = git(shared.tree, "diff", "--cached", "--name-only").split()
    assert all(path.startswith("a/") for path in staged)


def test_a_command_that_is_ended_while_it_is_judged_leaves_nothing(shared: Shared) -> None:
    for number in range(2000):
        (shared.tree / f"b/many-{number}").write_text("x")
    before = state(shared.tree)
    for after_ms in (1, 5, 20, 60):
        process = subprocess.Popen(
            ["git", "stash", "-q", "-u"], cwd=shared.a.root, env=environment(), stderr=-1
        )
        threading.Event().wait(after_ms / 1000)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert not difference(before, state(shared.tree))
    assert not shared.run("git add a && git commit -qm x --allow-empty").returncode


def test_a_number_that_was_a_shell_is_git_now(shared: Shared) -> None:
    """The write before is free; the same process then becomes git."""
    before = state(shared.tree)
    for _ in range(5):
        done = shared.run("echo x > a/own; exec git checkout -qf both")
        assert done.returncode
    done = shared.run("git status > a/own; exec git stash -q -u")
    assert done.returncode
    assert difference(before, state(shared.tree)) == {"a/own"}


def test_what_is_only_named_git_is_judged_by_each_change(shared: Shared) -> None:
    fake = shared.tree.parent / "git"
    shutil.copy(shutil.which("touch") or "", fake)
    assert not shared.run(f"{fake} a/made").returncode
    assert shared.run(f"{fake} b/made").returncode
    assert not shared.run(f"cp {fake} a/git && a/git a/more").returncode
    assert not (shared.tree / "b/made").exists()


def test_git_under_another_name_is_judged_by_each_change(shared: Shared) -> None:
    """No more than that is said of it: its writes outside are refused one by one."""
    other = shared.tree.parent / "tig"
    shutil.copy(os.path.realpath(shutil.which("git") or ""), other)
    shared.run(f"{other} checkout -qf theirs")
    assert not (shared.tree / "b/new-theirs").exists()
    assert git(shared.tree, "diff", "--quiet", "HEAD", "--", "a") == ""


@pytest.mark.parametrize("count", [200, 3000])
def test_long_command_lines(shared: Shared, count: int) -> None:
    name = "x" * 600
    names = [f"{side}/{name}-{at}" for side in ("a", "b") for at in range(count // 2)]
    script = (
        "import os, sys; os.execvp('git', ['git', 'rm', '-q', '--ignore-unmatch', *sys.argv[1:]])"
    )
    before = state(shared.tree)
    done = subprocess.run(
        [sys.executable, "-c", script, "a/f", "b/f", *names],
        cwd=shared.a.root,
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode
    assert not difference(before, state(shared.tree))


def test_started_elsewhere_with_paths_that_are_relative(shared: Shared) -> None:
    """Git goes to the root before it writes; no shell has told where it began."""
    before = state(shared.tree)
    b = Path(shared.a.root, "b")
    (shared.tree / "b/f").write_text("theirs")
    before = state(shared.tree)
    for words in (["checkout", "f"], ["rm", "-qf", "g"], ["-C", "../b", "checkout", "--", "f"]):
        done = subprocess.run(
            ["git", *words], cwd=b, env=environment(), capture_output=True, check=False
        )
        assert done.returncode, words
        assert not difference(before, state(shared.tree)), words
    done = subprocess.run(
        ["git", "rm", "-qf", "g"], cwd=Path(shared.a.root, "a"), env=environment(), check=False
    )
    assert not done.returncode


def test_in_a_mount_namespace_of_its_own(shared: Shared) -> None:
    """As in a container: the process sees the tree at another path."""
    elsewhere = shared.tree.parent / "elsewhere"
    elsewhere.mkdir()
    before = state(shared.tree)
    script = f"mount --bind {shared.a.root} {elsewhere} && cd {elsewhere}/b && "
    for command in (
        "git checkout -qf both",
        "git rm -qf f",
        "cd / && git -C $OLDPWD reset --hard both",
    ):
        done = shared.run(f"unshare -m --propagation private sh -c '{script}{command}'")
        assert done.returncode
        assert not difference(before, state(shared.tree)), command
    done = shared.run(f"unshare -m --propagation private sh -c '{script} cd ../a && git rm -qf f'")
    assert not done.returncode, done.stderr


def test_a_submodule_that_another_holds(place: Path) -> None:
    base = place / "submodule"
    tree = make_shared(base)
    for side in ("a", "b"):
        git(
            tree,
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "-q",
            "add",
            "../origin.git",
            f"{side}/sub-of",
        )
    git(tree, "commit", "-qm", "submodules", "--", ".gitmodules", "a/sub-of", "b/sub-of")
    for side in ("a", "b"):
        git(tree / side / "sub-of", "checkout", "-q", "HEAD~")
    with (
        mounted(str(tree), str(base / "mount-a"), "--agent", "a", "--lease", "a/**") as a,
        mounted(str(tree), str(base / "mount-b"), "--agent", "b", "--lease", "b/**") as b,
    ):
        shared = Shared(tree, a, b)
        before = state(tree)
        for command in (
            "git submodule update",
            "git submodule update b/sub-of",
            "git submodule -q foreach 'git checkout -q main'",
            "git -C b/sub-of checkout -q main",
            "git submodule deinit -f b/sub-of",
        ):
            done = shared.run(command)
            changed = difference(before, state(tree))
            assert not {name for name in changed if "b/sub-of" in name}, (command, changed)
        done = shared.run("git submodule update -f a/sub-of")
        assert not done.returncode, (done.stderr, shared.refusals())


def test_repositories_in_a_tree_that_is_under_no_git(place: Path) -> None:
    """Their git directories need a lease, too; so whoever has one may be let in by them, and is judged."""
    base = place / "workspace"
    tree = make_shared(base)
    outer = base / "outer"
    outer.mkdir()
    tree.rename(outer / "one")
    leases = ["--lease", "one/a/**", "--lease", "one/.git/**"]
    with (
        mounted(str(outer), str(base / "mount-a"), "--agent", "a", *leases) as a,
        mounted(str(outer), str(base / "mount-b"), "--agent", "b", "--lease", "one/b/**") as b,
    ):
        shared = Shared(outer, a, b)
        before = _files(outer)
        done = shared.run("git -C one checkout -qf both")
        assert done.returncode
        assert _files(outer) == before
        assert {one["path"] for one in shared.refusals()} >= {"one/b/f"}
        assert not shared.run("cd one/a && git checkout -q f").returncode


def _files(tree: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for path in tree.rglob("*")
        if path.is_file() and ".git/objects" not in str(path)
    }
