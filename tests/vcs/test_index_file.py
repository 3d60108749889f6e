"""Our reading of the index against `git ls-files`, in each of its forms."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasefs.vcs.gitdir import GitDir
from leasefs.vcs.index_file import NO_INDEX, read_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree

NAMES = [b"a", b"ab", b"d/deep/" + b"x" * 200, b"d/\xff\n"]


def filled(tree: GitTree) -> GitTree:
    for name in NAMES:
        tree.write(name, name)
    tree.git("add", ".")
    os.chmod(tree.path + b"/a", 0o755)
    tree.git("update-index", "a")
    return tree


def check(tree: GitTree) -> None:
    listing = tree.git("ls-files", "-s", "-z").split(b"\0")[:-1]
    wanted = {}
    for record in listing:
        head, _, path = record.partition(b"\t")
        mode, blob, stage = head.split(b" ")
        if stage == b"0":
            wanted[path] = (int(mode, 8), blob.decode())
    index = read_index(tree.open_git(), lambda _path: True)
    assert {path: (one.mode, one.blob) for path, one in index.entries.items()} == wanted
    assert wanted
    for path, one in index.entries.items():
        status = os.lstat(tree.path + b"/" + path)
        assert (one.size, one.mtime_ns, one.ctime_ns) == (
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        assert one.stands_for(status, status.st_ctime_ns + 1)
        assert not one.stands_for(status, status.st_ctime_ns)


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("ids", ["sha1", "sha256"])
def test_each_version(make_tree: Callable[[str], GitTree], version: str, ids: str) -> None:
    tree = make_tree("tree")
    tree.git("init", "-q", f"--object-format={ids}")
    filled(tree)
    tree.git("update-index", f"--index-version={version}")
    check(tree)
    tree.write(b"later", b"x")
    tree.git("add", "-N", "later")
    tree.git("add", "later")
    check(tree)


def test_unmerged_entries_are_left_out(repo: GitTree) -> None:
    filled(repo)
    blob = repo.git("hash-object", "-w", "--stdin").strip()
    lines = b"".join(b"100644 %s %d\tboth\n" % (blob, stage) for stage in (1, 2, 3))
    repo.git("update-index", "--index-info", stdin=lines)
    check(repo)


def test_only_what_is_wanted(repo: GitTree) -> None:
    filled(repo)
    assert set(read_index(repo.open_git(), b"a".__eq__).entries) == {b"a"}


def test_forms_that_are_not_known(repo: GitTree) -> None:
    assert read_index(repo.open_git(), lambda _path: True) == NO_INDEX
    filled(repo)
    repo.git("update-index", "--split-index")
    assert not read_index(repo.open_git(), lambda _path: True).entries
    for content in (b"", b"DIRC", b"garbage" * 100, b"DIRC\0\0\0\x09\0\0\0\1" + b"x" * 99):
        repo.write(b".git/index", content)
        assert not read_index(repo.open_git(), lambda _path: True).entries


@given(st.binary(max_size=300), st.integers(2, 4))
@example(b"\0" * 62 + b"\xff", 4)
def test_any_content_is_read_or_passed_over(content: bytes, version: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/index", "wb") as file:
            file.write(b"DIRC\0\0\0" + bytes([version]) + b"\0\0\0\3" + content)
        directory_fd = os.open(directory, os.O_RDONLY)
        try:
            index = read_index(GitDir(directory_fd, directory_fd, True), lambda _path: True)
        finally:
            os.close(directory_fd)
    assert all(index.entries)
