"""Overlap and containment against brute force over all short paths of a small alphabet (P1).

The judge is `naive_match`, which shares nothing with the code under test. The alphabet has a byte
that no pattern names (`c`), so that `*`, `?` and negated classes have something of their own.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.core.errors import BadPattern
from leasefs.core.globs import Glob, parse_glob
from leasefs.core.overlap import overlap, uncovered
from leasefs.testing.naive_globs import naive_match

ALPHABET = b"abc./"
FAST_BYTES, SLOW_BYTES = 4, 5
TOKENS = ["a", "b", ".", "/", "*", "?", "[ab]", "[!a]", "**", "/**/", "[.a]", "[!.]"]


@lru_cache
def all_paths(most_bytes: int) -> list[bytes]:
    """Every path of at most so many bytes, the root left out."""
    return [
        path
        for length in range(1, most_bytes + 1)
        for path in map(bytes, product(ALPHABET, repeat=length))
        if all(name not in {b"", b".", b".."} for name in path.split(b"/"))
    ]


@cache
def matched(pattern: str, most_bytes: int) -> int:
    """The set of paths that match: bit n for the path numbered n."""
    found = 0
    for number, path in enumerate(all_paths(most_bytes)):
        if naive_match(pattern, path):
            found |= 1 << number
    return found


def readable(pattern: str) -> Glob | None:
    """The glob, or None if it is refused, which is right only if it matches nothing here."""
    try:
        return parse_glob(pattern)
    except BadPattern:
        return None


def check_overlap(left: str, right: str, most_bytes: int) -> bool:
    a, b = parse_glob(left), parse_glob(right)
    witness = overlap(a, b)
    common = matched(left, most_bytes) & matched(right, most_bytes)
    if witness is None:
        assert not common, (left, right, all_paths(most_bytes)[common.bit_length() - 1])
    else:
        assert naive_match(left, witness), (left, right, witness)
        assert naive_match(right, witness), (left, right, witness)
        assert a.matches(witness), (left, right, witness)
        assert b.matches(witness), (left, right, witness)
    return witness is not None


def check_containment(wanted: str, globs: list[str], most_bytes: int) -> bool:
    path = uncovered(parse_glob(wanted), [parse_glob(glob) for glob in globs])
    left_over = matched(wanted, most_bytes)
    for glob in globs:
        left_over &= ~matched(glob, most_bytes)
    if path is None:
        assert not left_over, (wanted, globs, all_paths(most_bytes)[left_over.bit_length() - 1])
    else:
        assert naive_match(wanted, path), (wanted, globs, path)
        assert not any(naive_match(glob, path) for glob in globs), (wanted, globs, path)
    return path is None


def bounded(examples: int) -> settings:
    """So many examples, however slow the machine is just now."""
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


patterns = (
    st.lists(st.sampled_from(TOKENS), min_size=1, max_size=6)
    .map("".join)
    .filter(lambda pattern: readable(pattern) is not None)
)


def check_matching(pattern: str, most_bytes: int) -> None:
    glob, again = parse_glob(pattern), parse_glob(parse_glob(pattern).text)
    judged = matched(pattern, most_bytes)
    for number, path in enumerate(all_paths(most_bytes)):
        expected = bool(judged >> number & 1)
        assert glob.matches(path) == again.matches(path) == expected, (pattern, glob.text, path)


def check_may_match_below(pattern: str, most_bytes: int) -> None:
    """A path below can be a byte longer than the paths looked at, so only long enough ones count."""
    glob = parse_glob(pattern)
    judged = matched(pattern, most_bytes)
    matching = [path for n, path in enumerate(all_paths(most_bytes)) if judged >> n & 1]
    for directory in [b"", *all_paths(2)]:
        found = (
            any(path.startswith(directory + b"/") for path in matching) if directory else matching
        )
        assert glob.may_match_below(directory) or not found, (pattern, directory)
        if glob.may_match_below(directory):
            below = parse_glob(escaped(directory) + "**")
            witness = overlap(glob, below)
            assert witness is not None, (pattern, directory)
            assert naive_match(pattern, witness)


def escaped(directory: bytes) -> str:
    return directory.decode() + "/" if directory else ""


@bounded(150)
@given(patterns)
def test_matching_agrees_with_brute_force(pattern: str) -> None:
    check_matching(pattern, FAST_BYTES)
    check_may_match_below(pattern, FAST_BYTES)


@bounded(1000)
@given(st.lists(patterns, min_size=2, max_size=2))
def test_overlap_agrees_with_brute_force(pair: list[str]) -> None:
    check_overlap(pair[0], pair[1], FAST_BYTES)


@bounded(400)
@given(patterns, st.lists(patterns, max_size=3))
def test_containment_agrees_with_brute_force(wanted: str, globs: list[str]) -> None:
    check_containment(wanted, globs, FAST_BYTES)


@bounded(300)
@given(st.lists(st.sampled_from(["a", "b", ".", "/", "*", "[.]", "[ab]"]), max_size=5).map("".join))
def test_a_refused_glob_matches_nothing(pattern: str) -> None:
    if readable(pattern) is None and not pattern.startswith("/") and pattern.strip("./"):
        assert not matched(pattern, FAST_BYTES)


@lru_cache
def all_short_patterns() -> list[str]:
    """Every accepted pattern of up to three tokens, one per glob."""
    spelt = ("".join(tokens) for n in (1, 2, 3) for tokens in product(TOKENS, repeat=n))
    found = {glob.text: pattern for pattern in spelt if (glob := readable(pattern)) is not None}
    return list(found.values())


@pytest.mark.slow
def test_every_pair_of_short_globs() -> None:
    """All pairs there are, hundreds of thousands, judged on all paths of up to five bytes."""
    short = all_short_patterns()
    overlapping = sum(check_overlap(left, right, 5) for left in short for right in short)
    assert len(short) > 600
    assert 0 < overlapping < len(short) ** 2


@pytest.mark.slow
def test_every_pair_of_short_globs_contained_or_not() -> None:
    short = all_short_patterns()
    contained = sum(check_containment(wanted, [glob], 5) for wanted in short[::3] for glob in short)
    assert len(short) < contained < len(short) ** 2 // 3


@pytest.mark.slow
@bounded(3_000)
@given(st.lists(patterns, min_size=2, max_size=2))
def test_overlap_of_longer_globs(pair: list[str]) -> None:
    check_overlap(pair[0], pair[1], SLOW_BYTES)


@pytest.mark.slow
@bounded(1_500)
@given(patterns, st.lists(patterns, min_size=1, max_size=4))
def test_containment_of_longer_globs(wanted: str, globs: list[str]) -> None:
    check_containment(wanted, globs, SLOW_BYTES)


@pytest.mark.slow
@bounded(300)
@given(patterns)
def test_matching_of_longer_globs(pattern: str) -> None:
    check_matching(pattern, 6)
    check_may_match_below(pattern, 6)
