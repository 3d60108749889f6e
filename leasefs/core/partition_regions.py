"""From cut units to regions: who has each first, who waits for it, and no more globs than a lease may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.lease import MAX_GLOBS
from leasefs.core.overlap import overlap
from leasefs.core.partition_types import Region, Spelling
from leasefs.core.partition_walk import GlobWalk, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from leasefs.core.globs import Glob
    from leasefs.core.partition_cuts import Cut, Groups
    from leasefs.core.partition_types import File, Task
    from leasefs.core.partition_units import Unit
    from leasefs.core.partition_walk import Ground

_Key = tuple[int, tuple[int, ...], "Unit | None"]
Piece = tuple["Unit", "tuple[Glob, ...]"]
"""A unit and some of what is left of it."""


class Draft:
    """A region in the making: its globs, what they are made of, the task that has it first and those that have it then."""

    def __init__(
        self, first: int, then: tuple[int, ...], pieces: Sequence[Piece], *, whole: bool
    ) -> None:
        self.first, self.then, self.whole = first, then, whole
        self.units = list(dict.fromkeys(unit for unit, _ in pieces))
        self.globs = tuple(dict.fromkeys(glob for _, globs in pieces for glob in globs))
        self.files: list[int] = []


def drafts(
    ordered: Sequence[Unit], cuts: Mapping[Unit, Cut], groups: Groups, meets: Meets
) -> list[Draft]:
    """The regions, in the order of their first tasks."""
    grouped: dict[Unit, list[Unit]] = {}
    for unit in ordered:
        if cuts[unit].parts:
            grouped.setdefault(groups.of(unit), []).append(unit)
    knotted = groups.knotted()
    by_key: dict[_Key, list[Unit]] = {}
    for group, units in grouped.items():
        first = _first_of(units, is_knot=group in knotted)
        whole = [(unit, part) for unit in units for part in cuts[unit].parts]
        then = sorted(_wanting(whole, cuts, meets) - {first})
        is_alone = group in knotted or units[0].is_apart
        by_key.setdefault((first, tuple(then), group if is_alone else None), []).extend(units)
    found: list[Draft] = []
    for key in sorted(by_key, key=lambda key: (key[0], len(key[1]), key[1])):
        packs = list(_packed(by_key[key], cuts))
        for pieces in packs:
            then_here = key[1]
            if len(packs) > 1:
                then_here = tuple(sorted(_wanting(pieces, cuts, meets) - {key[0]}))
            found.append(Draft(key[0], then_here, pieces, whole=key[2] in knotted))
    return found


def _first_of(units: Sequence[Unit], *, is_knot: bool) -> int:
    """A knot goes to the task with the most files in it; else the task is the same for all."""
    if not is_knot:
        return units[0].holders[0]
    files: dict[int, int] = {}
    for unit in units:
        for task in unit.holders:
            files[task] = files.get(task, 0) + unit.files
    return min(files, key=lambda task: (-files[task], task))


def _wanting(pieces: Sequence[Piece], cuts: Mapping[Unit, Cut], meets: Meets) -> set[int]:
    """The tasks that want some of these pieces."""
    left: dict[Unit, list[Glob]] = {}
    for unit, globs in pieces:
        left.setdefault(unit, []).extend(globs)
    found: set[int] = set()
    for unit, every in left.items():
        found.update(unit.tasks)
        others = (*unit.followers, *unit.rivals)
        if cuts[unit].spelling is not Spelling.ASKED:
            others = meets.among(every, others)
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


def _packed(units: Sequence[Unit], cuts: Mapping[Unit, Cut]) -> Iterator[list[Piece]]:
    """What is left of the units by as few leases as may be; what overlaps stays together."""
    together: list[Piece] = []
    size = 0
    for pieces in _inseparable(units, cuts):
        adds = sum(len(globs) for _, globs in pieces)
        if together and size + adds > MAX_GLOBS:
            yield together
            together, size = [], 0
        together += pieces
        size += adds
    yield together


def _inseparable(units: Sequence[Unit], cuts: Mapping[Unit, Cut]) -> Iterator[list[Piece]]:
    for knot in _connected(units):
        if len(knot) == 1:
            yield from ([(knot[0], part)] for part in cuts[knot[0]].parts)
        else:
            yield [(unit, part) for unit in knot for part in cuts[unit].parts]


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


def put_files(
    made: Sequence[Draft], ordered: Sequence[Unit], units: Sequence[Unit], ground: Ground
) -> None:
    """Each file to the region of the first unit that matches it; `units` are in the order of the ground's walk."""
    place = {unit: at for at, unit in enumerate(ordered)}
    drafts_of: dict[Unit, list[Draft]] = {}
    for draft in made:
        for unit in draft.units:
            drafts_of.setdefault(unit, []).append(draft)
    several: dict[Unit, list[int]] = {}
    for set_, inside in ground.cells.items():
        matching = [units[number] for number in numbers(set_) if units[number] in place]
        if not matching:
            continue
        first = min(matching, key=place.__getitem__)
        if len(drafts_of[first]) == 1:
            drafts_of[first][0].files += inside
        else:
            several.setdefault(first, []).extend(inside)
    for unit, inside in several.items():
        _put_apart(drafts_of[unit], inside, ground.paths)


def _put_apart(among: Sequence[Draft], inside: Sequence[int], paths: Sequence[bytes]) -> None:
    """The files of a unit that takes several regions, each to the one that matches it."""
    draft_of = [draft for draft in among for _ in draft.globs]
    walk = GlobWalk([glob for draft in among for glob in draft.globs])
    for set_, found in walk.cells([paths[number] for number in inside]).items():
        draft = draft_of[next(numbers(set_))]
        draft.files += [inside[at] for at in found]


def finished(
    number: int,
    draft: Draft,
    cuts: Mapping[Unit, Cut],
    tasks: Sequence[Task],
    files: Sequence[File],
) -> Region:
    """The region, as it is told."""
    spellings = {cuts[unit].spelling for unit in draft.units}
    worst = max(spellings, key=lambda one: list(Spelling).index(one))
    inside = [files[one] for one in draft.files]
    return Region(
        id=f"R{number}",
        task=tasks[draft.first].name,
        then=tuple(tasks[task].name for task in draft.then),
        globs=tuple(sorted(draft.globs, key=lambda glob: glob.text)),
        files=len(inside),
        size_bytes=sum(file.size_bytes for file in inside),
        commits=sum(file.commits for file in inside),
        spelling=Spelling.WHOLE if draft.whole else worst,
    )
