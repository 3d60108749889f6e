"""A glob less another, against brute force over all short paths of a small alphabet.

The judge is `naive_match`, which shares nothing with the code under test.
"""

from __future__ import annotations

import contextlib
from functools import cache, lru_cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.core.errors import BadPattern
from leasefs.core.globs import Glob, parse_glob
from leasefs.core.overlap import overlap
from leasefs.core.partition_spelling import (
    Unspellable,
    is_hard_to_leave_out,
    less,
    less_all,
    rest_below,
)
from leasefs.testing.naive_globs import naive_match

TOKENS = ["a", "b", ".", "/", "*", "?", "[ab]", "[!a]", "/**/", "**"]
PATHS = [
    path
    for length in range(1, 6)
    for path in map(bytes, product(b"abc./", repeat=length))
    if all(name not in {b"", b".", b".."} for name in path.split(b"/"))
]


@cache
def matched(pattern: str) -> frozenset[bytes]:
    return frozenset(path for path in PATHS if naive_match(pattern, path))


@lru_cache
def readable(pattern: str) -> Glob | None:
    try:
        return parse_glob(pattern)
    except BadPattern:
        return None


patterns = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=6).map("".join)
globs = patterns.map(readable).filter(lambda glob: glob is not None)


def spelt_as(glob: str, other: str) -> list[str]:
    return [one.text for one in less(parse_glob(glob), parse_glob(other))]


@settings(deadline=None)
@given(globs, globs)
def test_less_is_exact(glob: Glob, other: Glob) -> None:
    try:
        left = less(glob, other)
    except Unspellable:
        assert is_hard_to_leave_out(other)
        return
    assert all(overlap(one, other) is None for one in left)
    assert not any(matched(one.text) & matched(other.text) for one in left)
    together = frozenset[bytes]().union(*(matched(one.text) for one in left))
    assert together == matched(glob.text) - matched(other.text)


@settings(deadline=None)
@given(globs, st.lists(globs, max_size=3))
def test_less_all_is_exact(glob: Glob, others: list[Glob]) -> None:
    try:
        left = less_all(glob, others, 200)
    except Unspellable:
        return
    wanted = matched(glob.text).difference(*(matched(other.text) for other in others))
    assert frozenset[bytes]().union(*(matched(one.text) for one in left)) == wanted


@settings(deadline=None)
@given(globs, st.sampled_from([b"a", b"b", b"a/b", b"c/a", b".a", b"a/a"]))
def test_rest_below_is_exact(glob: Glob, directory: bytes) -> None:
    rest = rest_below(glob, directory)
    wanted = {path for path in matched(glob.text) if path.startswith(directory + b"/")}
    assert frozenset[bytes]().union(*(matched(one.text) for one in rest)) == wanted
    assert bool(rest) == glob.may_match_below(directory)


@pytest.mark.parametrize(
    ("glob", "other", "left"),
    [
        ("src/**", "src/ab/**", "src/* src/[!a]*/** src/a/** src/a[!b]*/** src/ab?*/**"),
        ("src/**", "**/*.c", "src/**/*[!c] src/**/c src/**/*[!.]c"),
        ("**/*.c", "a/**", "*.c [!a]*/**/*.c a?*/**/*.c"),
        ("*", "a", "[!a]* a?*"),
        ("**/*.ts", "**/*.d.ts", "**/.ts **/*[!d].ts **/d.ts **/*[!.]d.ts"),
        ("a*", "a*", ""),
        ("a/**", "**", ""),
        ("src/**", "docs/**", "src/**"),
        (
            "**/a/**",
            "a/a/**",
            "[!a]*/**/a/** a?*/**/a/** a/[!a]* a/[!a]*/** a/a?* a/a?*/** a/a a/[!a]*/**/a/** a/a?*/**/a/**",
        ),
        ("!x*".replace("!", "\\!"), "\\!xy", "\\!x[!y]* \\!x \\!xy?*"),
    ],
)
def test_what_is_left_is_said_in_few_globs(glob: str, other: str, left: str) -> None:
    assert sorted(spelt_as(glob, other)) == sorted(left.split())


@pytest.mark.parametrize(
    ("glob", "other"),
    [
        ("**", "**/a/**"),
        ("*", "*a*"),
        # A class lists no half of a character, so no glob says `neither this byte, nor longer`.
        ("*", "é"),
    ],
)
def test_what_cannot_be_said_is_not_said(glob: str, other: str) -> None:
    with pytest.raises(Unspellable):
        spelt_as(glob, other)


def test_no_more_globs_than_asked_for() -> None:
    wide, narrow = parse_glob("**"), [parse_glob("a/b")]
    count = len(less_all(wide, narrow, 100))
    assert less_all(wide, narrow, count)
    with pytest.raises(Unspellable):
        less_all(wide, narrow, count - 1)


def test_a_long_name_costs_a_glob_or_two_for_each_byte() -> None:
    name = "x" * 60
    assert len(spelt_as("src/*", f"src/{name}")) == 2 * 60


@settings(deadline=None)
@given(globs, globs)
def test_what_is_spelt_reads_back(glob: Glob, other: Glob) -> None:
    try:
        left = less(glob, other)
    except Unspellable:
        return
    for one in left:
        again = parse_glob(one.text)
        assert again == one
        assert again.parts == one.parts
        assert (again.literal_path, again.is_tree) == (one.literal_path, one.is_tree)


@pytest.mark.parametrize(
    "other", ["a" * 200 + "b", "a" * 200 + "*", "?" * 31 + "*", "*" + "a" * 200]
)
def test_hostile_names_are_given_up_soon(other: str) -> None:
    """Costs are counted in steps, so what would take for ever is refused; that it ends is the test."""
    with contextlib.suppress(Unspellable):
        less(parse_glob("*a" * 15 + "*b"), parse_glob(other))


def test_hostile_paths_are_given_up_soon() -> None:
    with contextlib.suppress(Unspellable):
        less(parse_glob("**/a/" * 15 + "*b"), parse_glob("a/" * 200 + "b"))
