"""What is under some globs, told from git's index where that can be trusted and from the files where not."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from leasefs.core.globs import parse_glob
from leasefs.vcs.errors import GitFailed
from leasefs.vcs.tree_content import Content, content_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree

ODD = b'src/-\xff"\\ \n\t\xc3\xa9'


def content(tree: GitTree, *globs: str) -> Content:
    return content_of(os.fsdecode(tree.path), [parse_glob(glob) for glob in globs or ("**",)])


def by_hand(tree: GitTree) -> dict[bytes, bytes]:
    """Every file that is there and not git's, hashed by git one by one."""
    found: dict[bytes, bytes] = {}
    for directory, below, names in os.walk(tree.path):
        below[:] = [name for name in below if name != b".git"]
        for name in [*names, *below]:
            full = os.path.join(directory, name)
            path = os.path.relpath(full, tree.path)
            if os.path.isdir(full) and not os.path.islink(full):
                continue
            mode = os.lstat(full).st_mode
            if stat.S_ISLNK(mode):
                blob = tree.git("hash-object", "--stdin", stdin=os.readlink(full))
                found[path] = b"120000 " + blob.strip()
            else:
                blob = tree.git("hash-object", b"--path=" + path, "--", path)
                kind = b"100755 " if mode & stat.S_IXUSR else b"100644 "
                found[path] = kind + blob.strip()
    return found


def commit(tree: GitTree) -> None:
    tree.git("add", "-A")
    tree.git("commit", "-q", "--allow-empty", "-m", "some")


@pytest.fixture
def full(repo: GitTree) -> GitTree:
    """A committed tree with something of each kind."""
    for name in (b"top", b"src/a", b"src/b", b"src/deep/er/c", b"docs/d", ODD):
        repo.write(name, name)
    repo.write(b"src/run", b"#!/bin/sh\n")
    os.chmod(os.path.join(repo.path, b"src/run"), 0o755)
    os.symlink(b"src/a", os.path.join(repo.path, b"link"))
    os.symlink(b"src", os.path.join(repo.path, b"dirlink"))
    commit(repo)
    return repo


def _stage(tree: GitTree) -> None:
    tree.write(b"src/a", b"staged")
    tree.git("add", "src/a")
    tree.write(b"src/a", b"staged, then changed")


def _intend(tree: GitTree) -> None:
    tree.write(b"n", b"new")
    tree.git("add", "-N", "n")


def _retype(tree: GitTree) -> None:
    os.unlink(os.path.join(tree.path, b"src/b"))
    os.symlink(b"\xff/target", os.path.join(tree.path, b"src/b"))
    os.unlink(os.path.join(tree.path, b"link"))
    tree.write(b"link/now/a/directory", b"x")


def _same_stat(tree: GitTree) -> None:
    """Changed with its size and time left as they were."""
    path = os.path.join(tree.path, b"src/a")
    before = os.stat(path)
    tree.write(b"src/a", b"SRC/A")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _assumed(tree: GitTree) -> None:
    tree.git("update-index", "--assume-unchanged", "src/a")
    tree.git("update-index", "--skip-worktree", "src/b", "docs/d")
    tree.write(b"src/a", b"changed")
    tree.write(b"src/b", b"changed")
    os.unlink(os.path.join(tree.path, b"docs/d"))


def _conflict(tree: GitTree) -> None:
    tree.git("checkout", "-q", "-b", "other")
    tree.write(b"src/a", b"other")
    commit(tree)
    tree.git("checkout", "-q", "-")
    tree.write(b"src/a", b"mine")
    commit(tree)
    tree.git("merge", "-q", "other", ok=(1,))


CHANGES: dict[str, Callable[[GitTree], object]] = {
    "nothing": lambda tree: None,
    "touched": lambda tree: os.utime(os.path.join(tree.path, b"src/a")),
    "modified": lambda tree: tree.write(ODD, b"changed"),
    "staged": _stage,
    "same stat": _same_stat,
    "untracked": lambda tree: tree.write(b"src/new/\n\xff", b"new"),
    "intended": _intend,
    "deleted": lambda tree: os.unlink(os.path.join(tree.path, b"src/b")),
    "removed": lambda tree: tree.git("rm", "-q", "src/b"),
    "unindexed": lambda tree: tree.git("rm", "-q", "--cached", "src/b"),
    "mode": lambda tree: os.chmod(os.path.join(tree.path, b"src/a"), 0o755),
    "retyped": _retype,
    "believed": _assumed,
    "conflict": _conflict,
    "renamed": lambda tree: tree.git("mv", "src/a", "src/z"),
    "no index": lambda tree: os.unlink(os.path.join(tree.path, b".git/index")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_what_is_there(full: GitTree, change: str) -> None:
    before = content(full)
    assert before.files == by_hand(full)
    CHANGES[change](full)
    after = content(full)
    assert after.files == by_hand(full)
    assert after.doubt == ""
    same = change in {"nothing", "touched", "unindexed", "no index"}
    assert (before.digest == after.digest) == same


def test_another_object_format_hashes_links_its_way(make_tree: Callable[[str], GitTree]) -> None:
    tree = make_tree("sha256")
    tree.git("init", "-q", "--object-format=sha256")
    os.symlink(b"target", os.path.join(tree.path, b"link"))
    tree.write(b"a")
    assert content(tree).files == by_hand(tree)


def test_only_what_the_globs_match_counts(full: GitTree) -> None:
    full.write(b"src/new")
    assert set(content(full, "src/*").files) == {b"src/a", b"src/b", b"src/run", b"src/new", ODD}
    assert set(content(full, "docs/**", "src/a").files) == {b"docs/d", b"src/a"}
    assert set(content(full, "*").files) == {b"top", b"link", b"dirlink"}
    assert content(full, "none/**").doubt == "no file matches"


def test_scratch_does_not_count(full: GitTree) -> None:
    full.write(b".gitignore", b"build/\n")
    before = content(full)
    full.write(b"build/out")
    assert content(full) == before


def test_what_git_would_store_counts_not_how_it_is_checked_out(full: GitTree) -> None:
    full.write(b"text", b"a\nb\n")
    full.write(b".gitattributes", b"text text\n")
    commit(full)
    before = content(full)
    full.write(b"text", b"a\r\nb\r\n")
    assert content(full).digest == before.digest


def test_below_a_larger_repository_paths_are_relative(full: GitTree) -> None:
    full.write(b"src/a", b"changed")
    full.write(b"src/new")
    whole = content(full, "src/**").files
    part = content_of(os.fsdecode(full.path) + "/src", [parse_glob("**")])
    assert {b"src/" + path: blob for path, blob in part.files.items()} == whole


def test_a_tree_without_git_is_read_whole(make_tree: Callable[[str], GitTree]) -> None:
    tree = make_tree("bare")
    for name in (b"a", b"d/b", ODD):
        tree.write(name, name)
    os.symlink(b"d", os.path.join(tree.path, b"link"))
    os.mkfifo(os.path.join(tree.path, b"fifo"))
    before = content(tree)
    assert set(before.files) == {b"a", b"d/b", ODD, b"link"}
    assert set(content(tree, "d/**", "a").files) == {b"a", b"d/b"}
    tree.write(b"d/b", b"changed")
    assert content(tree).digest != before.digest


def test_a_submodule_counts_by_its_commit_and_its_changes_are_a_doubt(
    full: GitTree, make_tree: Callable[[str], GitTree]
) -> None:
    inner = make_tree("inner")
    inner.git("init", "-q")
    inner.write(b"x")
    commit(inner)
    full.git("submodule", "add", "-q", os.fsdecode(inner.path), "lib/sub")
    commit(full)
    clean = content(full)
    assert clean.files[b"lib/sub"].startswith(b"160000 ")
    assert clean.doubt == ""
    assert "'lib/sub' is a repository of its own" in content(full, "lib/sub/x").doubt
    full.write(b"lib/sub/x", b"changed")
    full.git("config", "diff.ignoreSubmodules", "all")
    assert "'lib/sub' is a repository of its own" in content(full).doubt
    assert "'lib/sub'" in content(full, "lib/**").doubt
    assert content(full, "src/**").doubt == ""


def test_a_repository_that_nobody_added_is_a_doubt(full: GitTree) -> None:
    full.git("init", "-q", "src/nested")
    full.write(b"src/nested/x")
    full.git("-C", "src/nested", "add", "-A")
    full.git("-C", "src/nested", "commit", "-q", "-m", "x")
    assert "'src/nested'" in content(full, "src/**").doubt
    assert "'src/nested'" in content(full, "src/nested/**").doubt
    assert content(full, "docs/**").doubt == ""


def test_a_file_that_cannot_be_read_is_a_failure(full: GitTree) -> None:
    full.write(b"src/a", b"changed")
    full.git("config", "filter.broken.clean", "false")
    full.git("config", "filter.broken.required", "true")
    full.write(b".gitattributes", b"src/a filter=broken\n")
    with pytest.raises(GitFailed):
        content(full)
