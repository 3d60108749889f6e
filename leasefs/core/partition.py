"""Partition: what several tasks want to change, as regions of which no two ever meet (P1).

    tasks, files -> units (each glob once, in the order in which they keep ground)
                 -> cuts  (each less what those before it keep)
                 -> regions, and what there is to tell of them

Whether two globs meet is decided glob against glob (`leasefs.core.overlap`), so regions stay apart whatever files come.
Every file that some task wants lies in exactly one region. There are no negated globs: what is left of a cut glob is
said exactly if it can be, else by what exists beside the cut (`Plan.open` tells where new files are nobody's), and if
that would be too much as well, it stays whole and the tasks have it one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.partition_cuts import Groups, cut_all
from leasefs.core.partition_regions import Meets, drafts, finished, put_files
from leasefs.core.partition_report import conflicts, notable, unclaimed
from leasefs.core.partition_types import Plan
from leasefs.core.partition_units import find_holders, find_rivals, in_order, units_of, wanted_ones
from leasefs.core.partition_walk import Ground, numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasefs.core.globs import Glob
    from leasefs.core.partition_regions import Draft
    from leasefs.core.partition_types import File, Notable, Region, Task
    from leasefs.core.partition_units import Unit
    from leasefs.core.partition_walk import Cells

NOTABLE = 10


def partition(
    tasks: Sequence[Task],
    files: Iterable[File],
    *,
    apart: Iterable[Glob] = (),
    commits: int = 0,
    exact: bool = True,
) -> Plan:
    """Divide what the tasks want.

    Args:
        tasks: in the order in which ties are decided; names are unique.
        files: all of the territory, each path once.
        apart: globs that get a region of their own, as far as a task wants them.
        commits: how many were looked at for `File.commits`.
        exact: spell what is left of a cut glob exactly where possible; else by what exists.
    """
    known = sorted(files)
    paths = [file.path for file in known]
    units = units_of(tasks, apart)
    ground = Ground([unit.glob for unit in units], paths)
    cells = ground.cells
    wanting = _wanting(units, cells)
    ordered = in_order(units, paths)
    find_rivals(units, ordered, ground.walk)
    find_holders(units, _files_of_tasks(wanting, cells))
    ordered = wanted_ones(ordered)
    groups = Groups(ordered)
    cuts = cut_all(ordered, ground, groups, exact=exact)
    made = drafts(ordered, cuts, groups, Meets(ground.walk))
    put_files(made, ordered, units, ground)
    regions = [finished(number, draft, cuts, tasks, known) for number, draft in enumerate(made, 1)]
    regions_of, region_at = _where(made, regions)
    about = _About(tasks, known, wanting, cells, region_at)
    return Plan(
        regions=tuple(regions),
        conflicts=conflicts(tasks, ordered, units, cells, known, regions_of),
        unclaimed=unclaimed(known, [at for at in range(len(known)) if at not in region_at]),
        largest=about.notable(by_size=True, commits=commits),
        hottest=about.notable(by_size=False, commits=commits),
        open=tuple(sorted({place for cut in cuts.values() for place in cut.open})),
        idle=tuple(task.name for task in tasks if all(one.task != task.name for one in regions)),
        files=len(known),
    )


def _wanting(units: Sequence[Unit], cells: Cells) -> dict[int, frozenset[int]]:
    """The tasks that want the files of each cell; fills `Unit.cells` and `Unit.files` on the way."""
    found: dict[int, frozenset[int]] = {}
    for set_, inside in cells.items():
        tasks: set[int] = set()
        for number in numbers(set_):
            units[number].files += len(inside)
            units[number].cells.append(set_)
            tasks.update(units[number].tasks)
        found[set_] = frozenset(tasks)
    return found


def _files_of_tasks(wanting: Mapping[int, frozenset[int]], cells: Cells) -> dict[int, int]:
    found: dict[int, int] = {}
    for set_, tasks in wanting.items():
        for task in tasks:
            found[task] = found.get(task, 0) + len(cells[set_])
    return found


def _where(
    made: Sequence[Draft], regions: Sequence[Region]
) -> tuple[dict[Unit, set[str]], dict[int, Region]]:
    """The regions of each unit, by their ids, and of each file, by its number."""
    regions_of: dict[Unit, set[str]] = {}
    region_at: dict[int, Region] = {}
    for draft, region in zip(made, regions, strict=True):
        region_at |= dict.fromkeys(draft.files, region)
        for unit in draft.units:
            regions_of.setdefault(unit, set()).add(region.id)
    return regions_of, region_at


class _About:
    """What is told of single files."""

    def __init__(
        self,
        tasks: Sequence[Task],
        files: Sequence[File],
        wanting: Mapping[int, frozenset[int]],
        cells: Cells,
        region_at: Mapping[int, Region],
    ) -> None:
        self._tasks, self._files, self._wanting = tasks, files, wanting
        self._cell_of = {at: set_ for set_, inside in cells.items() for at in inside}
        self._region_at = region_at

    def notable(self, *, by_size: bool, commits: int) -> tuple[Notable, ...]:
        return notable(
            self._files,
            (lambda file: file.size_bytes) if by_size else (lambda file: file.commits),
            self._region_at.get,
            lambda at: tuple(
                self._tasks[task].name for task in sorted(self._wanting[self._cell_of[at]])
            ),
            most=NOTABLE,
            commits=commits,
        )
