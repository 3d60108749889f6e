"""Rescue then restore is byte-identical, over random trees (P9)."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.testing.git_tree import GitTree
from leasefs.testing.tree_state import State, clear_tree, make_tree, tree_state
from leasefs.vcs.rescue import About, Kind, bare_repository, content, read, restore, snapshot

pytestmark = pytest.mark.root  # files of no permissions at all are among them

_ODD = (
    *(b"a", b"b", b"c", b"new\nline", b"-dash", b":colon", b"caf\xe9", b"\r", b'"q"', b"a b", b"*"),
    *(b"git~1", b"\\back", b".gitmodules", b".gitattributes", b".leasefs-rescue", b"x" * 200),
)
_NAMES = st.one_of(
    st.sampled_from(_ODD),
    st.binary(min_size=1, max_size=6).filter(
        lambda name: not set(name) & set(b"/\0") and name not in {b".", b"..", b".git"}
    ),
)
_MODES = st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o000, 0o4755, 0o2711, 0o1644, 0o777])
_CONTENT = st.one_of(
    st.sampled_from([b"", b"a\r\nb\r\n", b"\0", b"x" * 70_000, b"$Id$\n"]), st.binary(max_size=50)
)
_FILES = st.tuples(_MODES.map(lambda mode: stat.S_IFREG | mode), _CONTENT)
_LINKS = st.tuples(
    st.just(stat.S_IFLNK),
    st.one_of(
        st.sampled_from([b"a", b"../..", b"/etc/passwd", b"no\nwhere", b"y" * 300]),
        st.binary(min_size=1, max_size=9).filter(lambda text: b"\0" not in text),
    ),
)
_DIRECTORIES = st.sampled_from([0o755, 0o700, 0o2775, 0o1777, 0o000]).map(
    lambda mode: (stat.S_IFDIR | mode, b"")
)


@st.composite
def _trees(draw: st.DrawFn, below: bytes = b"", depth: int = 0) -> State:
    state: State = {}
    for name in draw(st.lists(_NAMES, max_size=4 - depth, unique=True)):
        path = below + name
        kinds = [_FILES, _FILES, _LINKS] + ([_DIRECTORIES] if depth < 3 else [])
        mode, _ = state[path] = draw(st.one_of(kinds))
        if stat.S_ISDIR(mode):
            state |= draw(_trees(path + b"/", depth + 1))
    return state


def _spelt(state: State) -> set[bytes]:
    return {path + b"/" if stat.S_ISDIR(mode) else path for path, (mode, _) in state.items()}


def _is_silent(tree: GitTree) -> tuple[bytes, ...]:
    """What a snapshot must leave as it is."""
    with open(tree.path + b"/.git/HEAD", "rb") as head:
        said = [head.read()]
    index = tree.path + b"/.git/index"
    if os.path.exists(index):
        with open(index, "rb") as file:
            said.append(file.read())
    said.append(
        tree.git("--no-optional-locks", "status", "--porcelain", "-z", "--ignored", "-uall")
    )
    said.append(tree.git("for-each-ref", "refs/heads", "refs/tags", "refs/stash"))
    return tuple(said)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=_trees(), after=_trees(), commits=st.booleans())
def test_what_is_put_back_is_what_was_kept(before: State, after: State, commits: bool) -> None:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as resources:
        tree = GitTree(os.fsencode(directory), resources)
        tree.git("init", "-q")
        make_tree(tree.path, before)
        if commits:
            # Those that git does not take are untracked then, and no less to be kept.
            tree.git("-c", "core.protectNTFS=false", "add", "-A", ok=(0, 128))
            tree.git("commit", "-q", "--allow-empty", "-m", "x")
        clear_tree(tree.path)
        make_tree(tree.path, after)
        said = _is_silent(tree)
        about = About("L7", 7, "ada", "shell", ("**",), "expired", 1e9)
        gitdir, root_fd = tree.open_git(), tree.open_root()
        made = snapshot(gitdir, root_fd, _spelt(before) | _spelt(after) or {b"none"}, about)
        assert made.problems == ()
        assert set(made.paths) >= _spelt(before) | _spelt(after)
        assert tree_state(tree.path) == after
        assert _is_silent(tree) == said
        if not commits:  # else the commit itself may hold names that it complains of
            assert tree.git("fsck", "--strict", "--no-dangling") == b""
        assert os.listdir(tree.path + b"/.git/objects") == [
            name for name in os.listdir(tree.path + b"/.git/objects") if b"tmp" not in name
        ]
        for entry in read(gitdir, made.id).paths:
            if entry.kind in (Kind.FILE, Kind.SYMLINK):
                assert b"".join(content(gitdir, made.id, entry.path)) == after[entry.path][1]
        clear_tree(tree.path)
        if commits:
            tree.git("-c", "core.protectNTFS=false", "checkout-index", "-a", "-q")
        restore(gitdir, made.id, root_fd)
        assert tree_state(tree.path) == after
        assert not restore(gitdir, made.id, root_fd).changed


@settings(max_examples=15, deadline=None)
@given(after=_trees())
def test_a_tree_that_is_not_gits(after: State) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        tempfile.TemporaryDirectory() as aside,
        ExitStack() as resources,
    ):
        tree = GitTree(os.fsencode(directory), resources)
        make_tree(tree.path, after)
        root_fd = tree.open_root()
        gitdir = resources.enter_context(bare_repository(f"{aside}/rescues.git"))
        made = snapshot(gitdir, root_fd, _spelt(after) | {b"none"}, About("L7", 7, "ada"))
        assert made.problems == ()
        clear_tree(tree.path)
        restore(gitdir, made.id, root_fd)
        assert tree_state(tree.path) == after
