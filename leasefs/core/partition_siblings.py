"""A glob less others, said by what exists: whole directories where nothing else is wanted, single files elsewhere.

For where `leasefs.core.partition_spelling` finds no exact way. What is created anew beside them is left to nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.globs import Glob, literal_glob
from leasefs.core.partition_spelling import Unspellable, rest_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.core.partition_units import Unit
    from leasefs.core.partition_walk import Ground


class Siblings(NamedTuple):
    """The globs of each directory or file, and the directories in which a new name would be matched by none of them."""

    parts: tuple[tuple[Glob, ...], ...]
    open: tuple[bytes, ...]


def siblings(unit: Unit, rivals: Sequence[Unit], ground: Ground, most: int) -> Siblings:
    """What `unit` matches and none of `rivals`, of the files there are: all that it matches now.

    Raises:
        Unspellable: that would be more than `most` globs.
    """
    near = held = 0
    for rival in rivals:
        near |= ground.walk.places(rival.number)
        if rival.glob.is_tree:
            held |= ground.walk.places(rival.number, len(rival.glob.literal_prefix))
    top = bytes(unit.glob.literal_path)
    below = _directories(_left(unit, rivals, ground), top)
    found: list[tuple[Glob, ...]] = []
    open_: list[bytes] = []
    waiting = [top]
    while waiting:
        place = waiting.pop()
        state = ground.walk.state_of(place)
        if not state & near:
            rest = rest_below(unit.glob, place)
            found += [rest] if rest else []
        elif not state & held:
            open_.append(place)
            files, directories = below.get(place, ((), ()))
            found += [(literal_glob(file),) for file in files]
            waiting += directories
        if len(found) > most:
            raise Unspellable
    found.sort(key=lambda part: part[0].text)
    return Siblings(tuple(found), tuple(sorted(open_)))


def _left(unit: Unit, rivals: Sequence[Unit], ground: Ground) -> list[bytes]:
    taken = sum(1 << rival.number for rival in rivals)
    cells = (ground.cells[set_] for set_ in unit.cells if not set_ & taken)
    return [ground.paths[number] for cell in cells for number in cell]


def _directories(
    paths: Sequence[bytes], top: bytes
) -> dict[bytes, tuple[list[bytes], list[bytes]]]:
    """The files and subdirectories in each directory from `top` down on the way to `paths`, which lie below it."""
    found: dict[bytes, tuple[list[bytes], list[bytes]]] = {top: ([], [])}
    for path in paths:
        below, place = path, path.rpartition(b"/")[0]
        is_file = True
        while place not in found:
            found[place] = ([below], []) if is_file else ([], [below])
            below, place, is_file = place, place.rpartition(b"/")[0], False
        found[place][0 if is_file else 1].append(below)
    return found
