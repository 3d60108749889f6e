"""A file that git would store as HEAD has it is clean, whatever its bytes; git itself is the oracle. No filter runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leasefs.testing.git_tree import GitTree
from leasefs.vcs.conversion import Conversion
from leasefs.vcs.reconcile import Difference, Seen, WorkTree, dirty_below, standings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def dirty(tree: GitTree, path: bytes) -> Difference | None:
    found = standings(WorkTree(tree.open_root()), [path], {path: Seen("")})[path]
    assert found is not None
    assert (path in dirty_below(WorkTree(tree.open_root()), [b""])) == bool(found.dirty)
    return found.dirty


ATTRIBUTES = st.lists(
    st.sampled_from(
        [
            "text",
            "-text",
            "!text",
            "text=auto",
            "text=input",
            "text=nonsense",
            "crlf",
            "-crlf",
            "crlf=input",
            "eol=lf",
            "eol=crlf",
            "ident",
            "-ident",
            "binary",
            "filter=none",
            "working-tree-encoding=UTF-16",
            "working-tree-encoding=utf8",
        ]
    ),
    max_size=3,
    unique=True,
)
CONTENT = st.lists(
    st.sampled_from(
        [
            b"line",
            b"\n",
            b"\r\n",
            b"\r",
            b"\0",
            b"\x1a",
            b"\x01",
            b"$Id$",
            b"$Id: x$",
            b"$Id: ",
            b"$",
        ]
    ),
    max_size=8,
).map(b"".join)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitTree]:
    with ExitStack() as resources:
        tree = GitTree(os.fsencode(tmp_path_factory.mktemp("conversion")), resources)
        tree.git("init", "-q")
        yield tree


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(ATTRIBUTES, ATTRIBUTES, st.sampled_from(["true", "input", "false", ""]), CONTENT, CONTENT)
@example(["text=auto"], [], "", b"a\r\n", b"a\n")
@example([], [], "true", b"a\n", b"a\r\n")
@example([], [], "true", b"a\r\n", b"a\n")
@example(["eol=crlf"], [], "", b"a\r\r\n", b"a\r\n")
@example(["text=auto", "ident"], [], "", b"$Id$\n", b"$Id: 12 $\r\n")
@example(["working-tree-encoding=UTF-16"], [], "", b"a\n", "a\n".encode("utf-16"))
@example([], ["text"], "input", b"a\n", b"a\r\n")
def test_clean_is_what_git_would_store_the_same(
    one: GitTree,
    attributes: list[str],
    inner: list[str],
    autocrlf: str,
    committed: bytes,
    content: bytes,
) -> None:
    blob = one.git("hash-object", "-w", "--no-filters", "--stdin", stdin=committed).decode().strip()
    one.git("read-tree", "--empty")
    one.git("update-index", "--add", "--cacheinfo", f"100644,{blob},d/f")
    one.git("commit", "-q", "--allow-empty", "-m", "x")
    one.write(b".gitattributes", b"d/f " + " ".join(attributes).encode() + b"\n")
    one.write(b"d/.gitattributes", b"* " + " ".join(inner).encode() + b"\n")
    one.git("config", "core.autocrlf", autocrlf)
    one.write(b"d/f", content)
    ours = dirty(one, b"d/f")
    one.git("add", "d/f", ok=(0, 128))
    stored = one.git("rev-parse", ":d/f").decode().strip()
    refused = one.git("diff-files", "--name-only")  # not of the encoding it should have
    same = content == committed or (stored == blob and not refused)
    assert ours is (None if same else Difference.MODIFIED)


@given(CONTENT)
def test_without_attributes_nothing_is_converted(content: bytes) -> None:
    assert Conversion().to_git(content) == content


# -- filters -------------------------------------------------------------------------------------------


def armed(tree: GitTree) -> bytes:
    """Filters that say so when they run; the path of what they would make."""
    witness = tree.path + b"/.git/ran"
    script = os.fsdecode(tree.path + b"/.git/filter")
    tree.write(b".git/filter", b"#!/bin/sh\ntouch " + witness + b"\ntr a-z A-Z\n")
    os.chmod(script, 0o755)
    for key in ("clean", "smudge"):
        tree.git("config", f"filter.up.{key}", script)
    tree.git("config", "filter.pipe.process", script)
    tree.write(b".gitattributes", b"*.up filter=up\n*.pipe filter=pipe\n*.lfs filter=lfs\n")
    return witness


def test_no_filter_of_the_configuration_runs(repo: GitTree) -> None:
    witness = armed(repo)
    repo.write(b"a.up", b"text\n")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "x")
    repo.git("update-index", "--refresh")
    os.unlink(witness)
    for content in (b"text\n", b"other\n", b"TEXT\n"):
        repo.write(b"a.up", content)
        dirty(repo, b"a.up")
        repo.write(b"b.pipe", content)
        dirty(repo, b"b.pipe")
    assert not os.path.exists(witness)


def test_a_filtered_file_is_as_git_last_saw_it(repo: GitTree) -> None:
    """Its content cannot be compared without the filter: git's own judgement counts until the file is touched."""
    armed(repo)
    repo.write(b"a.up", b"text\n")
    an_hour_ago(repo, b"a.up")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "x")
    wait_for_a_later_index(repo)
    assert dirty(repo, b"a.up") is None
    repo.write(b"a.up", b"next\n")
    assert dirty(repo, b"a.up") is Difference.MODIFIED
    an_hour_ago(repo, b"a.up")
    assert dirty(repo, b"a.up") is Difference.MODIFIED
    repo.write(b"a.up", b"TEXT\n")  # what HEAD has, unfiltered
    assert dirty(repo, b"a.up") is None


def an_hour_ago(tree: GitTree, path: bytes) -> None:
    os.utime(tree.path + b"/" + path, (1_600_000_000, 1_600_000_000))


def wait_for_a_later_index(tree: GitTree) -> None:
    """Until git holds what it saw of the files for later than their last change."""
    for _ in range(1000):
        os.utime(tree.path + b"/.git/index")
        index = os.stat(tree.path + b"/.git/index").st_mtime_ns
        if index > os.stat(tree.path + b"/a.up").st_ctime_ns:
            return
    raise AssertionError("the clock stands still")


def test_files_of_git_lfs_are_compared_by_their_pointers(repo: GitTree) -> None:
    armed(repo)
    content = os.urandom(200_000)
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        hashlib.sha256(content).hexdigest().encode(),
        len(content),
    )
    repo.write(b"a.lfs", pointer)
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "x")
    assert dirty(repo, b"a.lfs") is None
    repo.write(b"a.lfs", content)
    assert dirty(repo, b"a.lfs") is None
    for other in (content[:-1], content[:-1] + b"x", b"", b"short"):
        if other != content:
            repo.write(b"a.lfs", other)
            assert dirty(repo, b"a.lfs") is Difference.MODIFIED


# -- modes and links --------------------------------------------------------------------------------------


def test_modes_that_do_not_count(repo: GitTree) -> None:
    repo.track(b"f")
    repo.git("commit", "-q", "-m", "x")
    os.chmod(repo.path + b"/f", 0o755)
    assert dirty(repo, b"f") is Difference.MODE
    repo.git("config", "core.fileMode", "false")
    assert dirty(repo, b"f") is None


def test_links_that_are_kept_as_files(repo: GitTree) -> None:
    os.symlink("target", repo.path + b"/link")
    repo.git("add", "link")
    repo.git("commit", "-q", "-m", "x")
    os.unlink(repo.path + b"/link")
    repo.write(b"link", b"target")
    assert dirty(repo, b"link") is Difference.TYPE
    repo.git("config", "core.symlinks", "no")
    assert dirty(repo, b"link") is None
    repo.write(b"link", b"another")
    assert dirty(repo, b"link") is Difference.MODIFIED


def test_a_repository_of_longer_ids(make_tree: Callable[[str], GitTree]) -> None:
    tree = make_tree("long")
    tree.git("init", "-q", "--object-format=sha256")
    tree.write(b"d/f", b"x\r\n")
    tree.write(b".gitattributes", b"* text\n")
    tree.git("add", ".")
    tree.git("commit", "-q", "-m", "x")
    assert dirty(tree, b"d/f") is None
    tree.write(b"d/f", b"y\n")
    assert dirty(tree, b"d/f") is Difference.MODIFIED


# -- whose repository ----------------------------------------------------------------------------------------


@pytest.mark.root
def test_another_users_repository(repo: GitTree) -> None:
    """Git runs as the owner: with their right to read, and their configuration, not root's."""
    repo.write(b"private/f", b"x\n")
    repo.write(b".gitattributes", b"* text\n")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "x")
    repo.write(b"private/f", b"x\r\n")
    repo.write(b"private/new", b"x\r\n")
    above = os.path.dirname(os.path.dirname(repo.path))
    os.chmod(os.path.dirname(repo.path), 0o755)
    os.chmod(above, 0o755)
    subprocess.run(["chown", "-R", "12345:12345", repo.path], check=True)
    os.chmod(repo.path + b"/private", 0o700)
    assert dirty(repo, b"private/f") is None
    assert dirty(repo, b"private/new") is Difference.UNTRACKED


@pytest.mark.root
def test_a_mount_over_the_tree_is_not_entered(repo: GitTree) -> None:
    repo.write(b"f", b"x\n")
    repo.write(b"d/g", b"x\n")
    repo.write(b".gitattributes", b"* text\n")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "x")
    repo.write(b"f", b"x\r\n")
    repo.write(b"d/g", b"y\n")
    repo.write(b"new", b"y\n")
    tree = WorkTree(repo.open_root())
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", repo.path], check=True)
    try:
        repo.write(b"cover", b"x")
        found = standings(tree, [b"f", b"d/g", b"new", b"cover"], {})
        assert {path: one.dirty for path, one in found.items() if one and one.dirty} == {
            b"d/g": Difference.MODIFIED,
            b"new": Difference.UNTRACKED,
        }
        assert set(dirty_below(tree, [b""])) == {b"d/g", b"new"}
    finally:
        subprocess.run(["umount", repo.path], check=True)


def test_nothing_is_left_behind(repo: GitTree) -> None:
    repo.track(b"f")
    repo.git("commit", "-q", "-m", "x")
    repo.write(b"f", b"x")
    root_fd = repo.open_root()
    before = len(os.listdir("/proc/self/fd"))
    assert dirty_below(WorkTree(root_fd), [b""])
    standings(WorkTree(root_fd), [b"f"], {b"f": Seen("")})
    assert len(os.listdir("/proc/self/fd")) == before
