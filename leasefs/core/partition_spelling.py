r"""A glob less another, as globs: there are no negated globs, so a region that leaves something out says what it has.

`src/**` less `src/core/**` is `src/*`, `src/c`, `src/[!c]*/**`, `src/c[!o]*/**` and so on: every path that the one matches
and the other does not, also those that do not exist yet. It costs one or two globs for each byte of a name that is left
out. Not everything can be said so: `Unspellable`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from leasefs.core.automaton import STAR
from leasefs.core.bytesets import ANY, is_single
from leasefs.core.component import EVERYTHING, Component, common_name, literal_component
from leasefs.core.errors import BadPattern
from leasefs.core.globs import Glob, glob_of, literal_tree
from leasefs.core.overlap import overlap
from leasefs.core.partition_algebra import Alphabet, Unspellable
from leasefs.core.paths import MAX_NAME_BYTES, components

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.core.globs import Parts

__all__ = ["Unspellable", "is_hard_to_leave_out", "less", "less_all", "rest_below"]

_HIGH = ANY & ~((1 << 128) - 1)


def less_all(glob: Glob, others: Iterable[Glob], most: int) -> tuple[Glob, ...]:
    """What `glob` matches and none of `others` does, as at most `most` globs; none if nothing is left.

    Raises:
        Unspellable: it cannot be said, or not with so few.
    """
    pieces = [glob]
    for other in others:
        cut: dict[Glob, None] = {}
        for piece in pieces:
            if overlap(piece, other) is None:
                cut[piece] = None
            else:
                cut |= dict.fromkeys(less(piece, other))
            if len(cut) > most:
                raise Unspellable
        pieces = list(cut)
    return tuple(pieces)


@lru_cache(maxsize=4096)
def less(glob: Glob, other: Glob) -> tuple[Glob, ...]:
    """What `glob` matches and `other` does not.

    Raises:
        Unspellable: it cannot be said with globs.
    """
    shallow, deep = _peeled(glob.parts, sum(part is not STAR for part in other.parts))
    found = [*shallow, *_NAMES.less(deep, other.parts)]
    return tuple(dict.fromkeys(one for parts in found for one in spelt(parts)))


def _peeled(parts: Parts, depth: int) -> tuple[list[Parts], Parts]:
    """`a/**` as `a/*`, `a/*/*` and so on down to `depth`, and the rest: what is shallower is out of the question.

    Said apart, as each of them would otherwise be cut where only the rest has to be.
    """
    shallow: list[Parts] = []
    if STAR in parts[:-1]:
        return shallow, parts  # no depth is out of the question
    while parts[-2:] == (EVERYTHING, STAR) and sum(part is not STAR for part in parts) < depth:
        shallow.append(parts[:-1])
        parts = (*parts[:-1], EVERYTHING, STAR)
    return shallow, parts


def is_hard_to_leave_out(glob: Glob) -> bool:
    """Whether `less` most often fails for it as the second: it has two stars with something between them."""
    wild = sum(part is STAR for part in glob.parts)
    return wild > 1 or any(
        part is not STAR and sum(token is STAR for token in part.tokens) > 1 for part in glob.parts
    )


def rest_below(glob: Glob, directory: bytes) -> tuple[Glob, ...]:
    """What `glob` matches below `directory`."""
    if glob.is_tree and (directory + b"/").startswith(glob.literal_path + b"/"):
        return (literal_tree(directory),)
    names = components(directory)
    above = tuple(map(literal_component, names))
    positions = {0}
    for name in names:
        positions = {
            to
            for at in _closed(glob.parts, positions)
            if at < len(glob.parts)
            for to in _taking(glob.parts, at, name)
        }
    found: dict[Glob, None] = {}
    for at in sorted(positions):
        rest = glob.parts[at:]
        if rest == (STAR,):
            rest = (EVERYTHING, STAR)
        if rest:
            found |= dict.fromkeys(spelt((*above, *rest)))
    return tuple(found)


def _closed(parts: Parts, positions: Iterable[int]) -> set[int]:
    closed = set(positions)
    return closed | {at + 1 for at in closed if at < len(parts) and parts[at] is STAR}


def _taking(parts: Parts, at: int, name: bytes) -> list[int]:
    part = parts[at]
    if part is STAR:
        return [at]
    return [at + 1] if part.matches(name) else []


def spelt(parts: Parts) -> list[Glob]:
    """The globs that match what these parts do.

    Raises:
        Unspellable: such a glob is longer than globs may be.
    """
    if parts[-1:] == (STAR,):
        return _spelt_open(parts)
    return [_read(parts)] if parts else []


def _spelt_open(parts: Parts) -> list[Glob]:
    """As the last component `**` says at least one name, where a star says none or more."""
    length = len(parts)
    while length and (parts[length - 1] is STAR or parts[length - 1] == EVERYTHING):
        length -= 1
    named, loose = parts[:length], parts[length:]
    least = sum(part is not STAR for part in loose)
    below = _read((*named, *[EVERYTHING] * max(least, 1), STAR))
    return [below] if least or not named else [_read(named), below]


def _read(parts: Parts) -> Glob:
    try:
        return glob_of(parts)
    except BadPattern as error:
        raise Unspellable from error


def _bytes_common(mine: int, yours: int) -> list[int]:
    return [mine & yours] if mine & yours else []


def _bytes_without(mine: int, yours: int) -> list[int]:
    left = mine & ~yours
    # A class names bytes above 127 all or none.
    if left & _HIGH not in (0, _HIGH) and not is_single(left):
        raise Unspellable
    return [left] if left else []


_BYTES = Alphabet(ANY, lambda mine, yours: bool(mine & yours), _bytes_common, _bytes_without)


def _meet(mine: Component, yours: Component) -> bool:
    return common_name(mine, yours) is not None


@lru_cache(maxsize=16384)
def _names_common(mine: Component, yours: Component) -> list[Component]:
    if mine in (yours, EVERYTHING) or yours == EVERYTHING:
        return [yours if mine == EVERYTHING else mine]
    name = common_name(mine, yours)
    if name is None:
        return []
    if mine.literal is not None or yours.literal is not None:
        return [mine if mine.literal is not None else yours]
    return _possible(_BYTES.both(mine.tokens, yours.tokens))


@lru_cache(maxsize=16384)
def _names_without(mine: Component, yours: Component) -> list[Component]:
    if mine == yours or yours == EVERYTHING:
        return []
    return _possible(_BYTES.less(mine.tokens, yours.tokens))


def _possible(patterns: Iterable[tuple[int | None, ...]]) -> list[Component]:
    """Those that some name matches, each once."""
    found = dict.fromkeys(map(Component, patterns))
    return [
        one
        for one in found
        if one.tokens
        and one.least_bytes <= MAX_NAME_BYTES
        and one.literal not in (b".", b"..")
        and common_name(EVERYTHING, one) is not None
    ]


_NAMES = Alphabet(EVERYTHING, _meet, _names_common, _names_without)
