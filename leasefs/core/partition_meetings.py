"""Which of many globs overlap which, without asking about every pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.index import GlobIndex
from leasefs.core.overlap import overlap
from leasefs.core.partition_walk import GlobWalk, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.core.globs import Glob

_HERE = ""  # the index is made for many territories


def meetings(
    globs: Sequence[Glob], walk: GlobWalk | None = None, known: Sequence[int] | None = None
) -> list[set[int]]:
    """For each glob the numbers of the others that overlap it; exact, as `overlap` is.

    What a tree or a literal meets, one walk to its directory or path tells of all the others at once. Only the remaining
    patterns are asked about in pairs, and only where their literal prefixes meet. `walk` is one over these globs; `known`
    are sets of globs that each is known to meet, as by a common file.
    """
    found: list[set[int]] = [set(numbers(one)) for one in known or [0] * len(globs)]
    walk = GlobWalk(globs) if walk is None else walk
    index = GlobIndex()
    for number, glob in enumerate(globs):
        if glob.is_tree:
            met = set(numbers(walk.leading_below(glob.literal_path)))
        elif glob.is_literal:
            met = set(numbers(walk.matching(glob.literal_path)))
        else:
            near = map(int, index.candidates(_HERE, [glob]))
            met = {
                other
                for other in near
                if other in found[number] or overlap(globs[other], glob) is not None
            }
            index = index.adding(_HERE, [glob], str(number))
        found[number] |= met
        found[number].discard(number)
        for other in met:
            if other != number:
                found[other].add(number)
    return found
