from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core import automaton
from leasefs.core.automaton import Budget
from leasefs.core.component import common_name
from leasefs.core.globs import MAX_WILDCARDS, Glob, literal_glob, literal_tree, parse_glob
from leasefs.core.overlap import TooComplex, first_overlap, overlap, uncovered

if TYPE_CHECKING:
    from collections.abc import Callable


def globs(*patterns: str) -> list[Glob]:
    return [parse_glob(pattern) for pattern in patterns]


OVERLAPPING = [
    ("src/**", "**/*.py", "src/a.py"),
    ("**", "**", "a"),
    ("a/b", "a/b", "a/b"),
    ("a/b", "a/*", "a/b"),
    ("a/**", "a/b/c", "a/b/c"),
    ("a/**", "a/b/**", "a/b/a"),
    ("a*", "*b", "ab"),
    ("a*b", "*c*", "acb"),
    ("?", "*", "a"),
    ("[a-m]*", "[m-z]*", "m"),
    ("**/a/**", "**/b/**", "a/b/a"),
    ("x/**/y", "**/z/*", "x/z/y"),
    ("*/b/**", "a/*/c", "a/b/c"),
    ("test_*.py", "*_unit.py", "test_unit.py"),
    (".*", "..*", "..a"),
    (".?*", "..?", "..a"),
]


@pytest.mark.parametrize(("left", "right", "witness"), OVERLAPPING)
def test_overlap_names_a_path_that_both_match(left: str, right: str, witness: str) -> None:
    a, b = globs(left, right)
    assert overlap(a, b) == witness.encode()
    other_way = overlap(b, a)
    assert other_way is not None
    assert a.matches(other_way)
    assert b.matches(other_way)


DISJOINT = [
    ("a/b", "a/c"),
    ("a/**", "b/**"),
    ("a/**", "a"),
    ("src/**", "src-app/**"),
    ("*.py", "*.js"),
    ("*.py", "src/*.py"),
    ("a*", "[!a]*"),
    ("*/b", "a/*/b"),
    ("**/a/b", "**/b/a"),
    ("?", "??"),
    ("src/*/x", "src/**/y*"),
    # Only `.` and `..` would match both of each pair, and no path has such a component.
    (".?", "?[.]"),
    ("[.a]", "[.b]"),
    ("x/[.a]/y", "x/[.b]/y"),
    ("[.a][.b]", "[.c][.d]"),
]


@pytest.mark.parametrize(("left", "right"), DISJOINT)
def test_no_overlap_where_no_path_matches_both(left: str, right: str) -> None:
    a, b = globs(left, right)
    assert overlap(a, b) is None
    assert overlap(b, a) is None


def test_names_with_glob_characters_are_only_themselves() -> None:
    page = literal_glob("app/[slug]/page.tsx")
    assert overlap(page, parse_glob("app/s/page.tsx")) is None
    assert overlap(page, parse_glob("app/**")) == b"app/[slug]/page.tsx"
    assert overlap(literal_tree("app/[slug]"), literal_tree("app/s")) is None
    assert overlap(literal_glob(b"\xff*"), parse_glob("?[*]")) == b"\xff*"


def test_first_overlap_gives_the_pair_and_a_witness() -> None:
    held = globs("docs/**", "src/core/**")
    wanted = globs("README.md", "src/*/x.py")
    assert first_overlap(held, wanted) == (held[1], wanted[1], b"src/core/x.py")
    assert first_overlap(held, iter(globs("README.md"))) is None
    assert first_overlap([], wanted) is None


COVERED = [
    ("a/b/**", ["a/**"]),
    ("a/b", ["a/*"]),
    ("**", ["*", "*/**"]),
    ("src/**", ["src/*", "src/*/**"]),
    ("*", ["[!a]*", "a", "a?*"]),
    ("a/**/b", ["a/b", "a/*/b", "a/*/*/**/b"]),
    ("**/x/**", ["x/**", "*/**"]),
    ("*.py", ["*"]),
    ("?", ["[!.]"]),
    ("??", ["[!.]?", ".[!.]"]),
    ("[ab]*[cd]", ["a*c", "a*d", "b*"]),
    ("*a*", ["a*", "?*a*"]),
    ("a/*/**", ["a/**"]),
]


@pytest.mark.parametrize(("wanted", "held"), COVERED)
def test_a_union_that_contains_the_glob(wanted: str, held: list[str]) -> None:
    assert uncovered(parse_glob(wanted), globs(*held)) is None


UNCOVERED = [
    ("a/**", [], "a/a"),
    ("a/**", ["a/*"], "a/a/a"),
    ("a/**", ["a/*/**"], "a/a"),
    ("a/b", ["a/c"], "a/b"),
    ("a", ["a/**"], "a"),
    ("a/b", ["a/b/**"], "a/b"),
    ("*", ["[!a]*", "a?*"], "a"),
    ("??", ["[!.]?", ".[!.a]"], ".a"),
    ("**/x/**", ["x/**", "*/x/**"], "a/a/x/a"),
    ("*", ["a*", "b*", "*c"], "d"),
    ("src/**", ["src/[!v]*/**", "src/v?*/**", "src/*"], "src/v/a"),
]


@pytest.mark.parametrize(("wanted", "held", "path"), UNCOVERED)
def test_a_union_that_does_not_contain_the_glob_leaves_a_path(
    wanted: str, held: list[str], path: str
) -> None:
    assert uncovered(parse_glob(wanted), globs(*held)) == path.encode()


def test_a_decision_beyond_the_budget_is_no_answer() -> None:
    wanted = parse_glob("*a" + "?" * 20 + "*")
    with pytest.raises(TooComplex):
        uncovered(wanted, globs("*[!a]" + "?" * 20, "*a" + "?" * 19 + "*"))
    with pytest.raises(TooComplex):
        Budget(2).spend(3)


HOSTILE = [
    (
        "/".join(["*" + "a" * 250] * 3) + "/*" + "ab" * 60 + "*",
        "/".join(["a" * 250 + "*"] * 3) + "/*",
    ),
    ("**/" + "/".join(["*" + "a" * 30 + "*"] * 15), "**/" + "/".join(["*" + "a" * 29 + "b*"] * 15)),
    ("**/" + "/".join(["*" + "a" * 30 + "*"] * 15) + "/c", "**/" + "*b/" * 30 + "d"),
    ("**/" + "a/b/" * 250 + "c", "**/" + "a/b/" * 250 + "a/**"),
    ("**/" + "a/" * 400 + "**/b", "**/" + "a/" * 200 + "**/c/**"),
    ("*a" * 16 + "b*" * 16, "b*" * 16 + "*a" * 16),
    ("*" + "[ab]*" * 15 + "c", "*" + "[cd]*" * 15 + "a"),
    ("**/a/" * 15 + "b", "**/b/" * 15 + "a"),
    ("**/*a/" * 10 + "b", "*/**/*b/" * 10 + "?"),
]


@pytest.mark.parametrize(("left", "right"), HOSTILE)
def test_hostile_pairs_are_decided_in_few_steps(
    left: str, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are counted, not seconds: rows (a few operations on a short integer each) and pairs.

    A component is laid beside each other one once at most, and few have wildcards.
    """
    cost = {"rows": 0, "meets": 0}
    real = automaton.Meeting.__init__

    def counting(self: Any, mine: Any, yours: Any, meets: Callable[[Any, Any], bool]) -> None:
        def counted(one: object, other: object) -> bool:
            cost["meets"] += 1
            return meets(one, other)

        cost["rows"] += len(mine) + 1
        real(self, mine, yours, counted)

    monkeypatch.setattr(automaton.Meeting, "__init__", counting)
    common_name.cache_clear()
    a, b = globs(left, right)
    witness = overlap(a, b)
    assert cost["rows"] <= (MAX_WILDCARDS + 1) * (len(left) + len(right))
    assert cost["meets"] <= len(left) * len(right)
    if witness is not None:
        assert a.matches(witness)
        assert b.matches(witness)


@pytest.mark.parametrize(("left", "right"), HOSTILE)
def test_hostile_containment_ends_within_the_budget(left: str, right: str) -> None:
    a, b = globs(left, right)
    try:
        path = uncovered(a, [b])
    except TooComplex:
        return
    assert path is not None
    assert a.matches(path)
    assert not b.matches(path)
