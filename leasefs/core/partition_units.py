"""The wanted globs in the order in which they keep ground, and who is cut by whom.

Where two overlap, the common ground stays whole with the one that reaches less far, and the other is cut. So a directory
stays as it was asked for, however many tasks want `**/*.md`, and what lies within another's ground is kept before it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from leasefs.core.overlap import uncovered
from leasefs.core.partition_meetings import meetings
from leasefs.core.partition_spelling import is_hard_to_leave_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasefs.core.globs import Glob
    from leasefs.core.partition_types import Task
    from leasefs.core.partition_walk import GlobWalk


@dataclass(slots=True, eq=False)
class Unit:
    """One glob, and all tasks that want just it (as numbers, in their order); more once it is known whom it meets.

    `cells` are those of `Ground` that it matches, `files` how many files these are. `rivals` are units that overlap it and
    go before it, `followers` those that go after it. `wanted_by` want a part of it at least, and of those `holders` have
    it, one after the other.
    """

    glob: Glob
    tasks: list[int]
    is_apart: bool = False
    number: int = 0
    files: int = 0
    cells: list[int] = field(default_factory=list, repr=False)
    rivals: list[Unit] = field(default_factory=list, repr=False)
    followers: list[Unit] = field(default_factory=list, repr=False)
    wanted_by: set[int] = field(default_factory=set)
    holders: list[int] = field(default_factory=list)


def units_of(tasks: Sequence[Task], apart: Iterable[Glob]) -> list[Unit]:
    """Each different glob once. Of a task's globs those are left out that lie in a directory which it wants as a whole."""
    found: dict[Glob, Unit] = {glob: Unit(glob, [], is_apart=True) for glob in apart}
    for number, task in enumerate(tasks):
        for glob in _not_within(dict.fromkeys(task.globs)):
            unit = found.setdefault(glob, Unit(glob, []))
            unit.tasks.append(number)
    units = list(found.values())
    for number, unit in enumerate(units):
        unit.number = number
    return units


def _not_within(globs: Iterable[Glob]) -> list[Glob]:
    every = list(globs)
    trees = [glob for glob in every if glob.is_tree]
    return [glob for glob in every if not any(_is_within(glob, tree) for tree in trees)]


def _is_within(glob: Glob, tree: Glob) -> bool:
    depth = len(tree.literal_prefix)
    if glob == tree or glob.literal_prefix[:depth] != tree.literal_prefix:
        return False
    return uncovered(glob, [tree]) is None


def in_order(units: Iterable[Unit], paths: Sequence[bytes]) -> list[Unit]:
    """Who keeps first: what is to be apart, then by how many files there are where it looks; `paths` in byte order.

    A glob looks into the directory that its literal names lead to. Of two that look into the same one, a pattern comes
    before the whole, and then what matches fewer files. What can hardly be left out of others goes last, as it is the
    others that would have to leave it out.
    """

    def key(unit: Unit) -> tuple[bool, bool, int, bool, int, int, int]:
        glob = unit.glob
        return (
            not unit.is_apart,
            is_hard_to_leave_out(glob),
            unit.files if glob.is_literal else _below(glob.literal_path, paths),
            glob.is_tree,
            unit.files,
            -len(glob.literal_prefix),
            unit.number,
        )

    return sorted(units, key=key)


def _below(directory: bytes, paths: Sequence[bytes]) -> int:
    if not directory:
        return len(paths)
    return bisect_left(paths, directory + b"0") - bisect_left(paths, directory + b"/")


def find_rivals(units: Sequence[Unit], ordered: Sequence[Unit], walk: GlobWalk) -> None:
    """Fill `rivals`, decided glob against glob, `followers` and `wanted_by`; `units` are in the order of the walk."""
    place = {unit.number: at for at, unit in enumerate(ordered)}
    together = [reduce(or_, unit.cells, 0) for unit in units]
    met = meetings([unit.glob for unit in units], walk, together)
    for at, unit in enumerate(ordered):
        unit.wanted_by |= set(unit.tasks)
        for number in sorted(met[unit.number], key=place.__getitem__):
            if place[number] < at:
                earlier = units[number]
                unit.rivals.append(earlier)
                earlier.followers.append(unit)
                earlier.wanted_by |= set(unit.tasks)


def find_holders(units: Iterable[Unit], files_of_task: Mapping[int, int]) -> None:
    """Fill `holders`: first the task of whose files these are the larger part, so the one with fewer."""
    for unit in units:
        wanting = unit.wanted_by if unit.is_apart else unit.tasks
        unit.holders = sorted(wanting, key=lambda task: (files_of_task.get(task, 0), task))


def wanted_ones(ordered: Iterable[Unit]) -> list[Unit]:
    """Without those that nobody holds: they were to be apart, and no task wants any of them."""
    found = [unit for unit in ordered if unit.holders]
    for unit in found:
        unit.rivals = [rival for rival in unit.rivals if rival.holders]
        unit.followers = [follower for follower in unit.followers if follower.holders]
    return found
