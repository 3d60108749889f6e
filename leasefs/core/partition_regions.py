"""From cut units to regions: who has each first, who waits for it, and no more globs than a lease may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.lease import MAX_GLOBS
from leasefs.core.overlap import overlap
from leasefs.core.partition_types import Region, Spelling
from leasefs.core.partition_walk import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from leasefs.core.globs import Glob
    from leasefs.core.partition_cuts import Cut, Groups
    from leasefs.core.partition_types import File, Task
    from leasefs.core.partition_units import Unit
    from leasefs.core.partition_walk import GlobWalk

_Key = tuple[int, tuple[int, ...], "Unit | None"]


class Draft:
    """A region in the making: some units, the task that has it first and those that have it then."""

    def __init__(self, first: int, then: tuple[int, ...], units: list[Unit]) -> None:
        self.first, self.then, self.units = first, then, units
        self.files: list[int] = []


def drafts(
    ordered: Sequence[Unit], cuts: Mapping[Unit, Cut], groups: Groups, meets: Meets
) -> tuple[list[Draft], set[int]]:
    """The regions, in the order of their first tasks, and the places in it of those that stayed whole."""
    grouped: dict[Unit, list[Unit]] = {}
    for unit in ordered:
        if cuts[unit].globs and unit.holders:
            grouped.setdefault(groups.of(unit), []).append(unit)
    knotted = groups.knotted()
    by_key: dict[_Key, list[Unit]] = {}
    for group, units in grouped.items():
        first = _first_of(units, is_knot=group in knotted)
        then = sorted(_wanting(units, cuts, meets) - {first})
        is_alone = group in knotted or units[0].is_apart
        by_key.setdefault((first, tuple(then), group if is_alone else None), []).extend(units)
    found: list[Draft] = []
    whole: set[int] = set()
    for key in sorted(by_key, key=lambda key: (key[0], len(key[1]), key[1])):
        for units in _packed(by_key[key], cuts):
            if key[2] in knotted:
                whole.add(len(found))
            found.append(Draft(key[0], key[1], units))
    return found, whole


def _first_of(units: Sequence[Unit], *, is_knot: bool) -> int:
    """A knot goes to the task with the most files in it; else the task is the same for all."""
    if not is_knot:
        return units[0].holders[0]
    files: dict[int, int] = {}
    for unit in units:
        for task in unit.holders:
            files[task] = files.get(task, 0) + unit.files
    return min(files, key=lambda task: (-files[task], task))


def _wanting(units: Sequence[Unit], cuts: Mapping[Unit, Cut], meets: Meets) -> set[int]:
    """The tasks that want some of what is left of these units."""
    found: set[int] = set()
    for unit in units:
        found.update(unit.holders)
        others = (*unit.followers, *unit.rivals)
        if cuts[unit].spelling is not Spelling.ASKED:
            others = meets.among(cuts[unit].globs, others)
        for other in others:
            found.update(other.tasks)
    return found


class Meets:
    """Which units meet what is left of another: see `partition_units.find_rivals`, where it is asked of whole units."""

    def __init__(self, walk: GlobWalk) -> None:
        self._walk = walk

    def among(self, globs: Sequence[Glob], others: Sequence[Unit]) -> tuple[Unit, ...]:
        """Those of `others` that overlap one of `globs`."""
        wanted = {other.number: other for other in others}
        asked = sum(1 << number for number in wanted)
        met = 0
        for glob in globs:
            near = asked & ~met
            if glob.is_literal:
                met |= near & self._walk.matching(glob.literal_path)
            elif near:
                near &= self._walk.leading_below(glob.literal_path)
                met |= near if glob.is_tree else self._meeting(glob, near, wanted)
        return tuple(wanted[number] for number in numbers(met))

    def _meeting(self, glob: Glob, near: int, units: Mapping[int, Unit]) -> int:
        """Those of `near` that a pattern overlaps."""
        return sum(
            1 << number for number in numbers(near) if overlap(units[number].glob, glob) is not None
        )


def _packed(units: Sequence[Unit], cuts: Mapping[Unit, Cut]) -> Iterator[list[Unit]]:
    """The units by as few leases as may be; those that overlap stay together."""
    if sum(len(cuts[unit].globs) for unit in units) <= MAX_GLOBS:
        yield list(units)
        return
    together: list[Unit] = []
    size = 0
    for knot in _connected(units):
        adds = sum(len(cuts[unit].globs) for unit in knot)
        if together and size + adds > MAX_GLOBS:
            yield together
            together, size = [], 0
        together += knot
        size += adds
    yield together


def _connected(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    left = dict.fromkeys(units)
    while left:
        knot = [next(iter(left))]
        del left[knot[0]]
        for unit in knot:  # grows while it is gone through
            for other in (*unit.followers, *unit.rivals):
                if other in left:
                    del left[other]
                    knot.append(other)
        yield knot


def finished(
    number: int,
    draft: Draft,
    cuts: Mapping[Unit, Cut],
    tasks: Sequence[Task],
    files: Sequence[File],
    *,
    whole: bool,
) -> Region:
    """The region, as it is told."""
    left = [cuts[unit] for unit in draft.units]
    globs = dict.fromkeys(glob for cut in left for glob in cut.globs)
    spellings = {cut.spelling for cut in left}
    worst = max(spellings, key=lambda one: list(Spelling).index(one))
    inside = [files[one] for one in draft.files]
    return Region(
        id=f"R{number}",
        task=tasks[draft.first].name,
        then=tuple(tasks[task].name for task in draft.then),
        globs=tuple(sorted(globs, key=lambda glob: glob.text)),
        files=len(inside),
        size_bytes=sum(file.size_bytes for file in inside),
        commits=sum(file.commits for file in inside),
        spelling=Spelling.WHOLE if whole else worst,
    )
