"""Cutting: each unit keeps its glob less what units before it keep, or, where that cannot be said, they stay together.

Two units that end up in different groups have no path in common, whatever files there will be: the globs of one were
made from its own by leaving out the other's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.lease import MAX_GLOBS
from leasefs.core.partition_siblings import siblings
from leasefs.core.partition_spelling import Unspellable, less_all
from leasefs.core.partition_types import Spelling

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from leasefs.core.globs import Glob
    from leasefs.core.partition_units import Unit
    from leasefs.core.partition_walk import Ground

# More than so many globs for what is left of one is no help to anybody who reads them; each that is left out costs some.
MOST_EXACT = 64
MOST_LEFT_OUT = 8
# What exists may take several leases to name.
MOST_SIBLINGS = 8 * MAX_GLOBS


class Cut:
    """What is left of a unit: its globs, how they are spelt, and the directories that are left open.

    Globs in different `parts` have no path in common.
    """

    __slots__ = ("open", "parts", "spelling")

    def __init__(
        self,
        parts: tuple[tuple[Glob, ...], ...],
        spelling: Spelling,
        open_: tuple[bytes, ...] = (),
    ) -> None:
        self.parts, self.spelling, self.open = parts, spelling, open_

    @property
    def globs(self) -> list[Glob]:
        """Those of all parts."""
        return [glob for part in self.parts for glob in part]


class Groups:
    """Which units share a region and so need not be cut from each other.

    These are those of the same first task that the same others want a part of, and what could not be taken apart.
    """

    def __init__(self, units: Iterable[Unit]) -> None:
        self._first: dict[Unit, Unit] = {}
        self._knotted: set[Unit] = set()
        by_key: dict[Hashable, Unit] = {}
        for unit in units:
            key = unit if unit.is_apart else (unit.holders[0], frozenset(unit.wanted_by))
            self._first[unit] = by_key.setdefault(key, unit)

    def of(self, unit: Unit) -> Unit:
        """The unit that stands for its group."""
        while self._first[unit] is not unit:
            unit = self._first[unit]
        return unit

    def knot(self, unit: Unit, others: Iterable[Unit]) -> None:
        """These could not be taken apart."""
        for other in others:
            self._first[self.of(other)] = self.of(unit)
        self._knotted.add(unit)

    def knotted(self) -> set[Unit]:
        """The groups that hold units which could not be taken apart."""
        return {self.of(unit) for unit in self._knotted}


def cut_all(
    ordered: Sequence[Unit], ground: Ground, groups: Groups, *, exact: bool
) -> dict[Unit, Cut]:
    """Cut each unit by those before it that are in other groups; `exact` False spells by siblings alone."""
    cuts: dict[Unit, Cut] = {}
    for unit in ordered:
        found: Cut | None = None
        while found is None:
            rivals = [rival for rival in unit.rivals if groups.of(rival) != groups.of(unit)]
            found = _cut(unit, rivals, ground, exact=exact)
            if found is None:
                hard = [one for one in rivals if _cut(unit, [one], ground, exact=exact) is None]
                groups.knot(unit, hard or rivals)
        cuts[unit] = found
    return cuts


def _cut(unit: Unit, rivals: Sequence[Unit], ground: Ground, *, exact: bool) -> Cut | None:
    """None if there is no way."""
    if not rivals:
        return Cut(((unit.glob,),), Spelling.ASKED)
    others = [rival.glob for rival in rivals]
    try:
        if unit.glob.is_literal or (exact and len(others) <= MOST_LEFT_OUT):
            left = less_all(unit.glob, others, MOST_EXACT)
            return Cut((left,) if left else (), Spelling.EXACT)
    except Unspellable:
        pass
    try:
        found = siblings(unit, rivals, ground, MOST_SIBLINGS)
    except Unspellable:
        return None
    return Cut(found.parts, Spelling.SIBLINGS, found.open)
