from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs.errors import BadGitFile, GitFailed
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.plumbing import config_values, configured, run_git
from leasefs.vcs.remotes import origin_url
from leasefs.vcs.tracked import load_tracked

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree


def test_no_git_here(make_tree: Callable[[str], GitTree]) -> None:
    assert find_git(make_tree("plain").open_root()) is None


def test_a_parents_repository_is_not_ours(repo: GitTree) -> None:
    os.mkdir(repo.path + b"/below")
    below_fd = os.open(repo.path + b"/below", os.O_RDONLY)
    assert find_git(below_fd) is None
    os.close(below_fd)


def test_a_plain_repository(repo: GitTree) -> None:
    gitdir = repo.open_git()
    assert gitdir.inside_tree
    assert gitdir.common_real_path() == os.path.realpath(repo.path) + b"/.git"
    assert [gitdir.owns(p) for p in (b".git", b".git/x", b".gitignore", b"a/.git", b"")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_linked_worktree(repo: GitTree, make_tree: Callable[[str], GitTree]) -> None:
    repo.track(b"a")
    repo.git("commit", "-q", "-m", "x")
    repo.git("worktree", "add", "-q", "../linked")
    linked = make_tree("linked")
    linked.track(b"only-here")
    gitdir = linked.open_git()
    assert not gitdir.inside_tree
    assert gitdir.owns(b".git")
    assert gitdir.common_real_path() == os.path.realpath(repo.path) + b"/.git"
    assert load_tracked(gitdir).is_tracked(b"only-here")
    assert not load_tracked(repo.open_git()).is_tracked(b"only-here")


def test_a_submodule(repo: GitTree, make_tree: Callable[[str], GitTree]) -> None:
    inner = make_tree("inner")
    inner.git("init", "-q")
    inner.track(b"in/side")
    inner.git("commit", "-q", "-m", "x")
    repo.git("submodule", "--quiet", "add", os.fsdecode(inner.path), "mods/inner")
    module = make_tree("repo/mods/inner")
    gitdir = module.open_git()
    assert not gitdir.inside_tree
    assert load_tracked(gitdir).is_tracked(b"in/side")
    assert (origin_url(gitdir) or "").endswith("inner")
    outer = load_tracked(repo.open_git())
    assert outer.is_tracked(b"mods/inner")
    assert outer.is_below_tracked(b"mods/inner/in/side")


def test_a_separate_git_directory_in_the_tree_is_not_declared_free(
    make_tree: Callable[[str], GitTree],
) -> None:
    tree = make_tree("separate")
    tree.write(b"src/file")
    tree.git("init", "-q", "--separate-git-dir=src/elsewhere")
    tree.write(b".git", b"gitdir: src/elsewhere")
    gitdir = tree.open_git()
    assert not gitdir.inside_tree
    assert not gitdir.owns(b"src/elsewhere/HEAD")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"gitdir: ",
        b"gitdir:",
        b"gitdir: /etc\n",
        b"gitdir: /etc/passwd\n",
        b"gitdir: .git\n",
        b"gitdir: nowhere\n",
        b"gitdir: a\0b\n",
        b"gitdir: ../\n/etc\n",
        b"gitdir: " + b"a/" * 3000,
        b"gitdir: " + b"x" * (1 << 20),
        b"gitdir: loop/x\n",
        b"\xff\xfe\0",
        b"ref: refs/heads/main\n",
    ],
)
def test_a_hostile_git_file_is_a_typed_error(
    make_tree: Callable[[str], GitTree], content: bytes
) -> None:
    tree = make_tree("hostile")
    tree.write(b".git", content)
    os.symlink("loop", tree.path + b"/loop")
    before = os.listdir("/proc/self/fd")
    root_fd = tree.open_root()
    with pytest.raises(BadGitFile, match=r"\.git"):
        find_git(root_fd)
    assert (
        len(os.listdir("/proc/self/fd")) == len(before) + 1
    )  # no descriptor left behind but the root's


def test_what_is_no_file_is_a_typed_error(make_tree: Callable[[str], GitTree]) -> None:
    tree = make_tree("odd")
    git = tree.path + b"/.git"
    os.symlink("/etc", git)
    with pytest.raises(BadGitFile, match="symbolic links"):
        find_git(tree.open_root())
    os.unlink(git)
    os.mkfifo(git)
    with pytest.raises(BadGitFile):
        find_git(tree.open_root())
    os.unlink(git)
    os.mkdir(git)
    with pytest.raises(BadGitFile, match="no HEAD"):
        find_git(tree.open_root())


@pytest.mark.parametrize("content", [b"", b"nowhere\n", b"/etc\n", b"a\0b", b"x" * 9000])
def test_a_hostile_commondir_is_a_typed_error(repo: GitTree, content: bytes) -> None:
    repo.write(b".git/commondir", content)
    with pytest.raises(BadGitFile):
        find_git(repo.open_root())


def test_git_runs_apart_from_the_callers_environment(
    repo: GitTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    gitdir = repo.open_git()
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "remote.origin.url")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "from-the-environment")
    assert origin_url(gitdir) is None
    repo.write(b".git/config", b'[remote "origin"]\n\turl = /tmp/\xff\n')
    assert origin_url(gitdir) == "/tmp/\udcff"


def test_hooks_and_monitors_of_the_repository_do_not_run(repo: GitTree) -> None:
    repo.track(b"a")
    witness = repo.path + b"/ran"
    repo.write(b".git/run", b"#!/bin/sh\ntouch " + witness + b"\n")
    os.chmod(repo.path + b"/.git/run", 0o755)
    repo.git("config", "core.fsmonitor", ".git/run")
    repo.git("config", "core.pager", ".git/run")
    gitdir = repo.open_git()
    assert load_tracked(gitdir).is_tracked(b"a")
    assert config_values(gitdir, "core.pager") == [b".git/run"]
    assert not os.path.exists(witness)


def test_several_keys_are_read_at_once(repo: GitTree) -> None:
    home = os.environb[b"HOME"]
    with open(home + b"/.gitconfig", "wb") as file:
        file.write(b"[CORE]\n\texcludesfile = ~/a\n\tb\n[core]\n\tignorecase\n")
    repo.git("config", "core.excludesFile", "with\na second line")
    repo.git("config", "core.excludesFileNot", "another key")
    gitdir = repo.open_git()
    assert configured(gitdir, "core.ignoreCase", "core.excludesFile", "feature.manyFiles") == {
        "core.ignoreCase": [b""],
        "core.excludesFile": [b"~/a", b"with\na second line"],
        "feature.manyFiles": [],
    }


def test_failures_are_typed_and_quote_git(repo: GitTree, monkeypatch: pytest.MonkeyPatch) -> None:
    gitdir = repo.open_git()
    with pytest.raises(GitFailed, match="not a git command"):
        run_git(gitdir, ["no-such-command"])
    with pytest.raises(GitFailed, match="longer than"):
        run_git(gitdir, ["cat-file", "--batch-all-objects", "--batch"], timeout_s=0)
    repo.write(b".git/index", b"garbage")
    with pytest.raises(GitFailed, match="index"):
        load_tracked(gitdir)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(GitFailed, match="install git"):
        run_git(gitdir, ["version"])


@pytest.mark.root
def test_another_users_repository_can_be_asked_by_root(repo: GitTree) -> None:
    repo.track(b"a")
    subprocess.run(["chown", "-R", "12345:12345", repo.path], check=True)
    repo.git("status", ok=(128,))  # git itself refuses: dubious ownership
    assert load_tracked(repo.open_git()).is_tracked(b"a")


@pytest.mark.root
@pytest.mark.parametrize("name", ["repo", "linked"])
def test_the_repository_stays_in_reach_when_its_tree_is_covered(
    repo: GitTree, make_tree: Callable[[str], GitTree], name: str
) -> None:
    """A file system mounted over the trees stands for an in-place mount: nothing beneath is reachable by path."""
    repo.track(b"a")
    repo.git("commit", "-q", "-m", "x")
    repo.git("worktree", "add", "-q", "../linked")
    tree = make_tree(name)
    rules = tree.rules()
    gitdir = tree.open_git()
    covered = [make_tree(which).path for which in ("repo", "linked")]
    for path in covered:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
    try:
        assert not os.path.exists(repo.path + b"/.git")
        assert load_tracked(gitdir).is_tracked(b"a")
        assert config_values(gitdir, "core.bare", "bool") == [b"false"]
        rules.refresh_excludes()
        assert rules.problems == []
    finally:
        for path in covered:
            subprocess.run(["umount", path], check=True)
