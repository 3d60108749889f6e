"""Glob against glob, decided exactly: does some path match both, does a union contain a glob (P1).

Paths are those below the root: `**`, the only glob that matches the root too, is not told apart
here from a union that matches everything else. Lengths of names and paths are not looked at, which
can only err to the refusing side. Every answer that a path exists names one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from leasefs.core.automaton import STAR, Budget, Meeting, TooComplex, Union, endings
from leasefs.core.component import EVERYTHING, Component, common_name, least_covered_names
from leasefs.core.paths import RelPath

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.core.globs import Glob

__all__ = ["TooComplex", "first_overlap", "overlap", "uncovered"]

# Some tenths of a second in CPython; real decisions take a few hundred steps.
CONTAINMENT_STEPS = 1_000_000


def overlap(left: Glob, right: Glob) -> RelPath | None:
    """A short path that both globs match (a witness), or None if there is none.

    Costs at most about the product of the two lengths, in machine-word operations.
    """
    if not _prefixes_meet(left, right):
        return None
    if left.is_literal:
        return left.literal_path if right.matches(left.literal_path) else None
    if right.is_literal:
        return right.literal_path if left.matches(right.literal_path) else None
    return _common_path(left, right)


def _prefixes_meet(left: Glob, right: Glob) -> bool:
    depth = min(len(left.literal_prefix), len(right.literal_prefix))
    return left.literal_prefix[:depth] == right.literal_prefix[:depth]


@lru_cache(maxsize=16384)
def _common_path(left: Glob, right: Glob) -> RelPath | None:
    depth = min(len(left.literal_prefix), len(right.literal_prefix))
    meeting = Meeting(left.parts[depth:], right.parts[depth:], _have_common_name)
    if not meeting.possible():
        return None
    names = [_common_name(mine, yours) for mine, yours in meeting.word()]
    return RelPath(b"/".join([*left.literal_prefix[:depth], *names]))


def _have_common_name(left: Component, right: Component) -> bool:
    return common_name(left, right) is not None


def _common_name(left: Component | None, right: Component | None) -> bytes:
    found = common_name(left or EVERYTHING, right or EVERYTHING)
    assert found is not None  # noqa: S101 - a meeting pairs only what has a common name
    return found


def first_overlap(
    lefts: Iterable[Glob], rights: Iterable[Glob]
) -> tuple[Glob, Glob, RelPath] | None:
    """The first pair, one glob of each side, that overlaps, with a witness; or None."""
    others = tuple(rights)
    for left in lefts:
        for right in others:
            witness = overlap(left, right)
            if witness is not None:
                return left, right, witness
    return None


def uncovered(wanted: Glob, globs: Iterable[Glob]) -> RelPath | None:
    """A path that `wanted` matches and none of `globs` does, or None if together they contain it.

    Raises:
        TooComplex: if that cannot be decided within a fixed number of steps; take it as not
            covered.
    """
    near = [glob for glob in globs if _prefixes_meet(glob, wanted)]
    if any(glob == wanted or _tree_contains(glob, wanted) for glob in near):
        return None
    if wanted.is_literal:
        path = wanted.literal_path
        return None if any(glob.matches(path) for glob in near) else path
    return _escaping_path(wanted, tuple(near))


def _tree_contains(glob: Glob, wanted: Glob) -> bool:
    """Whether `glob` is a tree and everything that `wanted` matches lies below its directory."""
    least_depth = sum(part is not STAR for part in wanted.parts)
    depth = len(glob.literal_prefix)
    return glob.is_tree and depth <= len(wanted.literal_prefix) and depth < least_depth


@lru_cache(maxsize=4096)
def _escaping_path(wanted: Glob, globs: tuple[Glob, ...]) -> RelPath | None:
    budget = Budget(CONTAINMENT_STEPS)
    union = Union(glob.parts for glob in globs)
    known: dict[tuple[Component, int], list[tuple[bytes, int]]] = {}

    def letters(part: Component | None, state: int) -> list[tuple[bytes, int]]:
        asked = part or EVERYTHING, state & union.tokens_at
        if asked not in known:
            known[asked] = _names(*asked, union, budget)
        return known[asked]

    for names, matched in endings(wanted.parts, union, letters, budget):
        if not matched:
            return RelPath(b"/".join(names))
    return None


def _names(
    part: Component, active: int, union: Union[Component], budget: Budget
) -> list[tuple[bytes, int]]:
    """Names for one component of the path, each with the union's positions that take it."""
    others = tuple(token for token, at in union.positions.items() if at & active)
    return [
        (name, sum(union.positions[other] for n, other in enumerate(others) if matched >> n & 1))
        for name, matched in least_covered_names(part, others, budget)
    ]
