"""`git check-ignore` is the oracle: random trees, random rules at every level, random tracked files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from leasefs.testing.git_tree import GitTree

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = (b"a", b"b", b"ab", b"a.o", b"-", b"\xff", b"b ", b"]", b"\\")
_ATOMS = (
    *(b"a", b"b", b"ab", b".o", b"/", b"/", b"*", b"*", b"**", b"**/", b"/**", b"?", b"\\", b"!"),
    *(
        b"[ab]",
        b"[!a]",
        b"[^b]",
        b"[a-b]",
        b"[]-]",
        b"[\\]]",
        b"[[:alpha:]]",
        b"[[:x:]]",
        b"[",
        b"]",
    ),
    *(
        b" ",
        b"\t",
        b"#",
        b"-",
        b"\xff",
        b"\xc3",
        b"[\x80-\xff]",
        b"[,-0]",
        b"\\*",
        b"\\ ",
        b"a/b",
        b"a/",
    ),
)
_GLOBS = st.lists(st.sampled_from(_ATOMS), min_size=1, max_size=6).map(b"".join)
_ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"  \n", b"\\ \n", b"\t\n", b"\0x\n"])
_RULES = st.lists(st.tuples(_GLOBS, _ENDS).map(b"".join), max_size=5).map(b"".join)
_TREE = [
    *_NAMES,
    *(b"a/" + name for name in (b"a", b"b", b"ab", b"a.o", b"\xff")),
    *(b"a/b/" + name for name in (b"a", b"b", b".o", b"b ")),
    *(b"b/" + name for name in (b"a", b"b")),
    *(b"b/a/" + name for name in (b"a", b"b", b"ab")),
    b"b/a/b/a",
    b"ab/b/b",
]
_DIRECTORIES = {path.rpartition(b"/")[0] for path in _TREE} - {b""} | {b"ab"}
_FILES = [path for path in _TREE if path not in _DIRECTORIES]
_ALL = sorted({*_FILES, *_DIRECTORIES})
_PLACES = (
    b".gitignore",
    b"a/.gitignore",
    b"a/b/.gitignore",
    b"b/.gitignore",
    b".git/info/exclude",
    b"global",
)


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> GitTree:
    """One tree for all examples: making a repository for each would take most of the time."""
    with ExitStack() as resources:
        tree = GitTree(os.fsencode(tmp_path_factory.mktemp("standing")), resources)
        tree.git("init", "-q")
        tree.git("config", "core.excludesFile", tree.path + b"/global")
        for path in _FILES:
            tree.write(path)
    return tree


def _compare(tree: GitTree, rules: dict[bytes, bytes], tracked: list[bytes]) -> set[bytes]:
    index = tree.path + b"/.git/index"
    if os.path.exists(index):
        os.unlink(index)
    for place in _PLACES:
        tree.write(place, rules.get(place, b""))
    tree.track(*tracked)
    with ExitStack() as resources:
        opened = GitTree(tree.path, resources)
        asked = opened.rules()
        wanted = tree.ignored_by_git(_ALL)
        scratch = {path for path in _ALL if asked.is_scratch(path, path in _DIRECTORIES)}
        assert scratch == wanted, (rules, tracked)
        assert {path for path in _ALL if asked.is_scratch(path, path in _DIRECTORIES)} == wanted
        assert not asked.problems
    return wanted


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rules=st.dictionaries(st.sampled_from(_PLACES), _RULES, min_size=1),
    tracked=st.lists(st.sampled_from(_FILES), max_size=3, unique=True),
)
@example(rules={b".gitignore": b"a**/b\n"}, tracked=[])
@example(rules={b".gitignore": b"/a/**/b\n!/a/b\n"}, tracked=[b"a/b/a"])
@example(rules={b".gitignore": b"b\\ \nb \n"}, tracked=[])
@example(rules={b".gitignore": b"\xef\xbb\xbfa/\n!a\n"}, tracked=[])
@example(rules={b".gitignore": b"a/\n", b"a/.gitignore": b"!*\n"}, tracked=[])
@example(rules={b"global": b"*\n", b".git/info/exclude": b"!a\n!a/b\n"}, tracked=[])
@example(rules={b".gitignore": b"a\n!/**\n"}, tracked=[])
@example(rules={b".gitignore": b"/**/\n", b"a/.gitignore": b"!/***\n"}, tracked=[])
@example(rules={b".gitignore": b"**\n!**/\n"}, tracked=[])
@example(rules={b".gitignore": b"[[:space:]\n[]\n[!]\n\\\n!\n/\n//\n"}, tracked=[])
def test_scratch_is_what_git_ignores(
    standing: GitTree, rules: dict[bytes, bytes], tracked: list[bytes]
) -> None:
    _compare(standing, rules, tracked)


@pytest.mark.slow
@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rules=st.dictionaries(st.sampled_from(_PLACES), _RULES, min_size=1),
    tracked=st.lists(st.sampled_from(_FILES), max_size=3, unique=True),
)
def test_scratch_is_what_git_ignores_at_length(
    standing: GitTree, rules: dict[bytes, bytes], tracked: list[bytes]
) -> None:
    _compare(standing, rules, tracked)


def test_the_comparison_can_tell(standing: GitTree) -> None:
    """It would be worth nothing if random rules ignored nothing or everything."""
    rules = {b".gitignore": b"a*\n!ab\n", b"b/.gitignore": b"/a/b/\n"}
    wanted = _compare(standing, rules, [b"a/a"])
    assert {b"a.o", b"a/b", b"b/a/b/a"} <= wanted
    assert wanted.isdisjoint({b"a", b"a/a", b"ab", b"b", b"b/b"})


@pytest.mark.parametrize(
    "name",
    [
        "alnum",
        "alpha",
        "blank",
        "cntrl",
        "digit",
        "graph",
        "lower",
        "print",
        "punct",
        "space",
        "upper",
        "xdigit",
    ],
)
def test_character_classes(repo: GitTree, name: str) -> None:
    """Every byte that a name can hold, against git's own idea of the class and of its complement."""
    names = [b"x" + bytes([byte]) for byte in range(1, 256) if byte != ord("/")]
    for pattern in (f"x[[:{name}:]]", f"x[![:{name}:]]"):
        repo.write(b".gitignore", pattern.encode() + b"\n")
        rules = repo.rules()
        wanted = repo.ignored_by_git(names)
        assert wanted
        assert {path for path in names if rules.is_scratch(path, is_dir=False)} == wanted


def test_submodules_and_worktrees(repo: GitTree, make_tree: Callable[[str], GitTree]) -> None:
    repo.write(b".gitignore", b"*.o\nbuild/\n")
    repo.git("add", ".gitignore")
    repo.git("commit", "-q", "-m", "x")
    repo.git("worktree", "add", "-q", "../linked")
    linked = make_tree("linked")
    linked.git("clone", "-q", "--bare", ".", "../bare.git")
    linked.git(
        "submodule",
        "--quiet",
        "add",
        os.fsencode(os.path.dirname(linked.path)) + b"/bare.git",
        "sub",
    )
    repo.write(b".git/info/exclude", b"from-the-clone\n")
    linked.write(b"sub/own.tmp")
    paths = [b"x.o", b"from-the-clone", b"x.c", b".git", b"sub"]
    rules = linked.rules()
    assert {path for path in paths if rules.is_scratch(path, is_dir=False)} == {
        b"x.o",
        b"from-the-clone",
    }
    # git does not answer for what lies in a submodule; its own rules and index do, so for us it is no one's scratch
    assert not rules.is_scratch(b"sub/x.o", is_dir=False)
    module = make_tree("linked/sub")
    module.write(b".git-is-a-file")
    asked = [b"y.o", b"y.c", b"from-the-clone"]
    assert {
        p for p in asked if module.rules().is_scratch(p, is_dir=False)
    } == module.ignored_by_git(asked)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"x[!a]y", b"x/y"),
        (b"a\t", b"a"),
        (b"x**/y", b"xa/b/y"),
        (b"[\\]]", b"]"),
    ],
)
def test_pathspecs_own_translation_would_differ_from_git(
    repo: GitTree, pattern: bytes, path: bytes
) -> None:
    """Why patterns are translated here. When this fails, pathspec has changed: see whether it can take over."""
    repo.write(b".gitignore", pattern + b"\n")
    wanted = path in repo.ignored_by_git([path])
    plain = GitIgnoreSpec.from_lines([pattern.decode("latin-1")])
    assert plain.match_file(path.decode("latin-1")) != wanted
    assert repo.rules().is_scratch(path, is_dir=False) == wanted
