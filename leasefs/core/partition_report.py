"""What a partition has to tell besides its regions: who meets whom, what nobody wants, which files stand out."""

from __future__ import annotations

from heapq import nsmallest
from itertools import combinations
from typing import TYPE_CHECKING

from leasefs.core.overlap import overlap
from leasefs.core.partition_types import Conflict, Notable, Unclaimed
from leasefs.core.partition_walk import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from leasefs.core.globs import Glob
    from leasefs.core.partition_types import File, Region, Task
    from leasefs.core.partition_units import Unit
    from leasefs.core.partition_walk import Cells

# From so many bytes on, or in so many of the commits (one in twenty), a file should be in a region of its own.
LARGE_BYTES = 128 * 1024
LEAST_COMMITS = 5
ONE_IN = 20


class _Meeting:
    """What two tasks have in common, as far as it is known."""

    __slots__ = ("files", "globs", "regions", "witness")

    def __init__(self, globs: tuple[Glob, Glob], witness: bytes) -> None:
        self.globs, self.witness = globs, witness
        self.files = 0
        self.regions: set[str] = set()


def conflicts(
    tasks: Sequence[Task],
    ordered: Sequence[Unit],
    units: Sequence[Unit],
    cells: Cells,
    files: Sequence[File],
    regions_of: Mapping[Unit, set[str]],
) -> tuple[Conflict, ...]:
    """Every pair of tasks with common ground: by a common file, or else because two globs could meet."""
    found: dict[tuple[int, int], _Meeting] = {}
    place = {unit: at for at, unit in enumerate(ordered)}
    for set_, inside in cells.items():
        matching = [units[number] for number in numbers(set_)]
        wanting: dict[int, Glob] = {}
        for unit in matching:
            for task in unit.tasks:
                wanting.setdefault(task, unit.glob)
        if len(wanting) < 2:
            continue
        keeper = min(matching, key=place.__getitem__)
        for one, other in combinations(sorted(wanting), 2):
            witness = files[inside[0]].path
            met = found.setdefault((one, other), _Meeting((wanting[one], wanting[other]), witness))
            met.files += len(inside)
            if witness < met.witness:
                met.globs, met.witness = (wanting[one], wanting[other]), witness
            met.regions |= regions_of.get(keeper, set())
    for pair, globs, keeper in _by_globs(ordered):
        if pair not in found:
            path = overlap(*globs)
            assert path is not None  # noqa: S101 - that is how they became rivals
            found[pair] = _Meeting(globs, path)
        if not found[pair].files:
            found[pair].regions |= regions_of.get(keeper, set())
    return tuple(_told(tasks, pair, met) for pair, met in sorted(found.items()))


def _by_globs(
    ordered: Sequence[Unit],
) -> Iterator[tuple[tuple[int, int], tuple[Glob, Glob], Unit]]:
    """Pairs of tasks by globs alone, whether there are files or not, and the unit that keeps the ground."""
    for unit in ordered:
        for pair in combinations(sorted(unit.tasks), 2):
            yield pair, (unit.glob, unit.glob), unit
        for rival in unit.rivals:
            for mine in unit.tasks:
                for theirs in rival.tasks:
                    if mine < theirs:
                        yield (mine, theirs), (unit.glob, rival.glob), rival
                    elif theirs < mine:
                        yield (theirs, mine), (rival.glob, unit.glob), rival


def _told(tasks: Sequence[Task], pair: tuple[int, int], met: _Meeting) -> Conflict:
    return Conflict(
        tasks=(tasks[pair[0]].name, tasks[pair[1]].name),
        globs=(met.globs[0].text, met.globs[1].text),
        witness=met.witness,
        files=met.files,
        regions=tuple(sorted(met.regions, key=lambda id_: int(id_[1:]))),
    )


def unclaimed(files: Sequence[File], nobodys: Sequence[int]) -> tuple[Unclaimed, ...]:
    """What no task wants, most files first: directories without anything wanted, else single files."""
    left = set(nobodys)
    mixed: set[bytes] = {b""}
    for number, file in enumerate(files):
        above = b"" if number in left else file.path.rpartition(b"/")[0]
        while above not in mixed:
            mixed.add(above)
            above = above.rpartition(b"/")[0]
    sums: dict[bytes, list[int]] = {}
    tops: dict[bytes, bytes] = {}
    for number in nobodys:
        directory = files[number].path.rpartition(b"/")[0]
        top = tops.get(directory)
        if top is None:
            top = tops[directory] = _top(directory, mixed)
        counted = sums.setdefault(top + b"/" if top else files[number].path, [0, 0])
        counted[0] += 1
        counted[1] += files[number].size_bytes
    rows = [Unclaimed(path, *counted) for path, counted in sums.items()]
    return tuple(sorted(rows, key=lambda row: (-row.files, row.path)))


def _top(directory: bytes, mixed: set[bytes]) -> bytes:
    """The uppermost directory above or at `directory` in which nothing is wanted; empty if there is none."""
    top = b""
    while directory not in mixed:
        top, directory = directory, directory.rpartition(b"/")[0]
    return top


def notable(
    files: Sequence[File],
    size: Callable[[File], int],
    region_at: Callable[[int], Region | None],
    tasks_at: Callable[[int], tuple[str, ...]],
    *,
    most: int,
    commits: int,
) -> tuple[Notable, ...]:
    """The `most` files with the greatest `size` above 0; `commits` is how many were looked at."""
    first = nsmallest(most, range(len(files)), key=lambda at: (-size(files[at]), files[at].path))
    found = []
    for at in first:
        file, region = files[at], region_at(at)
        if size(file) <= 0:
            break
        stands_out = file.size_bytes >= LARGE_BYTES or (
            file.commits >= LEAST_COMMITS and file.commits * ONE_IN >= commits
        )
        apart = stands_out and region is not None and region.files > 1
        found.append(Notable(file, region.id if region else "", tasks_at(at), apart))
    return tuple(found)
