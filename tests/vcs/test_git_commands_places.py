"""Where a git command works, and what it is called by: directories, links, repositories in repositories, processes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.judged import (
    covers,
    judged,
    make_history,
    process_of,
    really_changed,
    shell,
    work,
)
from leasefs.vcs.git_commands import (
    GitProcess,
    Nothing,
    Paths,
    Unknown,
    judge,
    may_be_git,
    read_process,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasefs.testing.git_tree import GitTree

_LOCAL = {
    f"GIT_CONFIG_{key}_0": value
    for key, value in (("KEY", "protocol.file.allow"), ("VALUE", "always"))
}


@pytest.fixture
def tree(make_tree: Callable[[str], GitTree]) -> GitTree:
    made = make_tree("tree")
    make_history(made.path)
    return made


def test_a_command_elsewhere_changes_nothing_here(tree: GitTree, tmp_path: Path) -> None:
    shell(
        bytes(tmp_path),
        "git init -q other; cd other; git config user.name t; git config user.email t@e;"
        "echo x > x; git add x; git commit -qm x; echo y > x",
    )
    assert judged(tree, "git reset --hard", b"../other") == Nothing()
    assert judged(tree, "git -C ../other reset --hard") == Nothing()
    assert (
        judged(
            tree, f"git --git-dir={tmp_path}/other/.git --work-tree={tmp_path}/other reset --hard"
        )
        == Nothing()
    )
    assert judged(tree, "git reset --hard", b".git") == Nothing()


@pytest.mark.parametrize(
    "command", ["git -C ../link reset --hard", "git -C ../link/d reset --hard"]
)
def test_a_link_leads_into_the_tree(tree: GitTree, tmp_path: Path, command: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "tree")
    work(tree.path)
    os.mkdir(tmp_path / "elsewhere")
    effect = judged(tree, command, b"../elsewhere")
    assert effect == Paths(frozenset({b"d/e/f", b"st", b"exec"}))


def test_a_link_inside_the_tree_leads_on(tree: GitTree) -> None:
    work(tree.path)
    shell(tree.path, "ln -s d/e short")
    assert judged(tree, "git -C short checkout -- f") == Paths(frozenset({b"d/e/f"}))
    assert judged(tree, "git -C short/.. checkout -- e") == Paths(frozenset({b"d/e/f"}))


def test_the_repository_may_be_named(tree: GitTree) -> None:
    work(tree.path)
    expected = Paths(frozenset({b"d/e/f", b"st", b"exec"}))
    assert judged(tree, "git --git-dir=.git reset --hard") == expected
    assert judged(tree, "git --git-dir .git --work-tree . reset --hard") == expected
    assert (
        judged(tree, "git reset --hard", GIT_DIR=".git", GIT_WORK_TREE=os.fsdecode(tree.path))
        == expected
    )
    assert judged(tree, "git --work-tree=.. reset --hard", b"d") == expected


@pytest.mark.parametrize(
    ("command", "environ"),
    [
        ("git --work-tree=d reset --hard", {}),
        ("git --git-dir=../other.git reset --hard", {}),
        ("git reset --hard", {"GIT_DIR": "../other.git"}),
        ("git reset --hard", {"GIT_COMMON_DIR": "../other.git"}),
        ("git reset --hard", {"GIT_INDEX_FILE": "other-index"}),
        ("git -C .. reset --hard", {}),
    ],
)
def test_what_overlaps_in_another_way_is_not_guessed(
    tree: GitTree, command: str, environ: dict[str, str]
) -> None:
    effect = judged(tree, command, b"", **environ)
    assert isinstance(effect, Unknown)
    assert effect.reason
    assert effect.advice


def test_hooks_use_the_usual_index(tree: GitTree) -> None:
    work(tree.path)
    assert judged(tree, "git checkout -- .", GIT_INDEX_FILE=".git/index") == Paths(
        frozenset({b"d/e/f", b"exec"})
    )


def test_a_repository_in_the_tree_is_told_by_its_own_state(tree: GitTree) -> None:
    work(tree.path)
    shell(tree.path, "git clone -q . ud/inner; cd ud/inner; echo changed > a; echo x > d/new")
    expected = Paths(frozenset({b"ud/inner/a"}))
    assert judged(tree, "git reset --hard", b"ud/inner/d") == expected
    assert judged(tree, "git clean -fd", b"ud/inner/d") == Paths(frozenset({b"ud/inner/d/new"}))
    assert really_changed(tree, "git -C ud/inner reset --hard") == {b"ud/inner/a"}


def test_submodules_are_told_whole_where_git_goes_into_them(tree: GitTree) -> None:
    tree.git("submodule", "add", "-q", "./.git", "sub")
    tree.git("commit", "-qm", "sub")
    shell(tree.path, "cd sub; git checkout -q origin/old; echo work >> a")
    assert judged(tree, "git reset --hard") == Paths(frozenset())
    assert judged(tree, "git reset --hard --recurse-submodules") == Paths(frozenset({b"sub/"}))
    assert judged(tree, "git -c submodule.recurse=true checkout old") == Paths(
        frozenset({b"a", b"n/new", b"sub", b"sub/", b".gitmodules"})
    )
    assert judged(tree, "git submodule update -f") == Paths(frozenset({b"sub/"}))
    assert judged(tree, "git submodule status") == Nothing(delegates=True)
    assert judged(tree, "git checkout -- .", b"sub") == Paths(frozenset({b"sub/a"}))


def test_a_linked_worktree(tree: GitTree, make_tree: Callable[[str], GitTree]) -> None:
    tree.git("worktree", "add", "-q", "../linked", "side")
    linked = make_tree("linked")
    linked.write(b"d/b", b"work")
    foretold = judged(linked, "git reset --hard main")
    assert foretold == Paths(frozenset(really_changed(linked, "git reset --hard main")))
    assert judged(linked, "git merge clash") == Paths(frozenset({b"a"}))


def test_before_the_first_commit(repo: GitTree, tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    make_history(bytes(tmp_path / "history"))
    repo.write(b"own")
    shell(repo.path, "git add own; git fetch -q ../history main")
    for command in (
        "git reset --hard",
        "git checkout -f",
        "git merge FETCH_HEAD",
        "git pull ../history main",
    ):
        effect = judged(repo, command)
        assert covers(effect, really_changed(repo, command)), command
    assert isinstance(judged(repo, "git stash"), Paths)


def test_names_of_any_bytes(tree: GitTree) -> None:
    names = [
        b"new\nline",
        b"\xff\xfe",
        b'quo"ted',
        b"-dash",
        b":colon",
        b":(top)magic",
        b"  ctime: 1:1\n",
    ]
    for name in names:
        tree.write(b"odd/" + name, b"1")
    tree.git("add", "-A")
    tree.git("commit", "-qm", "odd")
    for name in names:
        tree.write(b"odd/" + name, b"22")
    expected = {b"odd/" + name for name in names}
    assert judged(tree, "git reset --hard") == Paths(frozenset(expected))
    assert judged(tree, "git checkout -- .", b"odd") == Paths(frozenset(expected))
    assert judged(tree, "git --literal-pathspecs checkout -- ':(top)magic'", b"odd") == Paths(
        frozenset({b"odd/:(top)magic"})
    )
    effect = judged(tree, "git rm -f -- -dash './:colon'", b"odd")
    assert effect == Paths(frozenset({b"odd/-dash", b"odd/:colon"}))
    assert really_changed(tree, "git reset --hard") == expected


def test_programs_that_the_repository_names_are_not_run(tree: GitTree, tmp_path: Path) -> None:
    work(tree.path)
    trap = f"touch {tmp_path}/ran; cat"
    tree.write(b".git/info/attributes", b"* filter=trap merge=trap\n")
    for key in (
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "merge.trap.driver",
    ):
        tree.git("config", key, trap)
    tree.git("config", "filter.trap.required", "true")
    tree.git("config", "core.fsmonitor", trap)
    shell(tree.path, "touch -d 2001-01-01 keep gone")
    for command in (
        "git reset --hard",
        "git merge clash",
        "git sparse-checkout set d",
        "git cherry-pick clash",
    ):
        assert isinstance(judged(tree, command), Paths)
    assert not (tmp_path / "ran").exists()
    effect = judged(tree, "git merge clash")
    assert isinstance(effect, Paths)
    assert b"a" in effect.paths


def test_a_process_is_read_while_it_runs(tree: GitTree) -> None:
    command = ["git", "-c", "a.b=c d", "cat-file", "--batch"]
    environ = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_DIR": "../.git", "SECRET": "x"}
    cwd = os.path.join(tree.path, b"d")
    with subprocess.Popen(
        command, cwd=cwd, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(b"HEAD\n")
        child.stdin.flush()
        child.stdout.readline()
        assert may_be_git(child.pid)
        assert read_process(child.pid, tree.path) == GitProcess(
            tuple(word.encode() for word in command),
            cwd,
            tree.path,
            {b"HOME": b"/nowhere", b"GIT_DIR": b"../.git"},
            child.pid,
        )
        child.kill()
    assert not may_be_git(child.pid)
    assert read_process(child.pid, tree.path) is None
    assert not may_be_git(os.getpid())


def test_a_command_line_too_long_to_read_is_not_guessed(
    tree: GitTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasefs.vcs.git_commands.process.LIMIT_BYTES", 20)
    process = read_process(os.getpid(), tree.path)
    assert process is not None
    assert process.argv == ()
    assert isinstance(judge(process, tree.open_git(), tree.open_root()), Unknown)


@pytest.mark.parametrize(
    "command",
    [
        "git -c alias.a=b -c alias.b=a a",
        "git -c alias.a='a --hard' a",
        "git -c alias.a='\"open' a",
        "git reset --m",
        "git reset --unheard-of",
        "git checkout -Y old",
        "git checkout -b",
        "git --unheard-of reset --hard",
        "git -C",
        "git checkout --pathspec-from-file=-",
        "git checkout --pathspec-from-file=/proc/self/fd/0",
        "git checkout --pathspec-from-file=fifo",
        "git apply",
        "git apply /dev/stdin",
        "git am",
        "git checkout-index --stdin",
        "git checkout -- ../outside",
        "git checkout -- ':(top'",
        "git merge nothing-of-that-name",
        "git merge -s subtree side",
        "git filter-branch --all",
        "git merge-recursive old -- main side",
        "git cherry-pick --author=me --all",
        "git --config-env=alias.a=X a",
        "git bisect replay log",
        "git am -3 old.patch",
    ],
)
def test_what_cannot_be_told_says_why_and_what_to_do(tree: GitTree, command: str) -> None:
    os.mkfifo(os.path.join(tree.path, b"fifo"))
    shell(
        tree.path, "git format-patch -q --stdout -1 far > new; sed s/d.e.f/away/g new > old.patch"
    )
    effect = judged(tree, command)
    assert isinstance(effect, Unknown), effect
    assert effect.reason
    assert effect.advice


def test_configuration_that_takes_for_ever_is_waited_for_a_bounded_time(tree: GitTree) -> None:
    os.mkfifo(os.path.join(tree.path, b".git/fifo"))
    tree.write(b".git/config", b"[core]\nbare = false\n[include]\npath = fifo\n")
    process = process_of(tree, "git reset --hard")
    effect = judge(process, tree.open_git(), tree.open_root(), timeout_s=0.3)
    assert isinstance(effect, Unknown)
    assert "longer than" in effect.reason


@pytest.mark.parametrize(
    "command", ["git status", "git log -p", "git commit -m x", "git push", "git foo", "git"]
)
def test_what_writes_no_file_is_told_without_asking(tree: GitTree, command: str) -> None:
    process = process_of(tree, command)
    effect = judge(process, tree.open_git(), tree.open_root(), timeout_s=5)
    assert isinstance(effect, Nothing)
