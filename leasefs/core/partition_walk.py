"""Which globs each file of a territory is matched by: all globs at once, in one walk down its paths.

All globs are read side by side as one automaton (`leasefs.core.automaton.Union`) whose letters are names. A directory has
one state, the places in all globs that lead there; its files and subdirectories take one step from it. So a file costs
some operations on machine words, however many globs there are, and a directory that no glob leads into nothing at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.automaton import STAR, Union
from leasefs.core.bytesets import is_single
from leasefs.core.component import EVERYTHING, Component

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leasefs.core.globs import Glob

Cells = dict[int, list[int]]
"""The numbers of some files, by the set of globs that match them. A set is an integer: bit n is the glob numbered n."""


class GlobWalk:
    """The globs, made ready."""

    def __init__(self, globs: Sequence[Glob]) -> None:
        self._union = Union(glob.parts for glob in globs)
        self._all_ends = sum(self._union.ends)
        self._number_at: dict[int, int] = {}
        self._places: list[int] = []
        begin = 1
        for number, end in enumerate(self._union.ends):
            self._places.append(end - begin)
            while begin <= end:
                self._number_at[begin] = number
                begin <<= 1
        self._takers = _Takers(self._union.positions)
        self._states: dict[bytes, int] = {b"": self._union.start}

    def cells(self, paths: Iterable[bytes]) -> Cells:
        """The numbers of the paths in their order; 0 is no glob."""
        found: Cells = {}
        ends = self._all_ends
        for number, path in enumerate(paths):
            directory, _, name = path.rpartition(b"/")
            state = self._states.get(directory)
            if state is None:
                state = self.state_of(directory)
            matched = self._step(state, name) & ends if state else 0
            cell = found.get(matched)
            if cell is None:
                found[matched] = [number]
            else:
                cell.append(number)
        return {self._globs_at(matched): cell for matched, cell in found.items()}

    def matching(self, path: bytes) -> int:
        """The set of globs that match a path below the root."""
        return self._globs_at(self.state_of(path) & self._all_ends)

    def leading_below(self, directory: bytes) -> int:
        """The set of globs that match some path below `directory`, which need not exist."""
        return self._globs_at(self.state_of(directory) & ~self._all_ends)

    def state_of(self, directory: bytes) -> int:
        """The places in all globs that lead to it: a set, as `places` is."""
        missing: list[bytes] = []
        state = self._states.get(directory)
        while state is None:
            directory, _, name = directory.rpartition(b"/")
            missing.append(name)
            state = self._states.get(directory)
        while missing:
            name = missing.pop()
            directory = directory + b"/" + name if directory else name
            state = self._states[directory] = self._step(state, name) if state else 0
        return state

    def places(self, number: int, first: int = 0) -> int:
        """The places within the glob numbered so, from the `first` on, without the end: it matches more below."""
        every = self._places[number]
        return every & ~(((every & -every) << first) - 1)

    def _step(self, state: int, name: bytes) -> int:
        return self._union.after(state, self._takers.of(state, name))

    def _globs_at(self, places: int) -> int:
        found = 0
        for place in bits(places):
            found |= 1 << self._number_at[place]
        return found


def bits(number: int) -> Iterator[int]:
    """Its bits, each by itself, lowest first."""
    while number:
        lowest = number & -number
        yield lowest
        number ^= lowest


def numbers(set_: int) -> Iterator[int]:
    """The numbers in a set of globs, in order."""
    for one in bits(set_):
        yield one.bit_length() - 1


def share(globs: Sequence[Glob], paths: Sequence[bytes]) -> float:
    """The part of `paths` that one of `globs` matches, 0 to 1; 0 if there are no paths."""
    if not paths:
        return 0.0
    unmatched = GlobWalk(globs).cells(paths).get(0, [])
    return 1.0 - len(unmatched) / len(paths)


class Ground:
    """The paths of a territory, and which of some globs match them."""

    def __init__(self, globs: Sequence[Glob], paths: Sequence[bytes]) -> None:
        self.paths = paths
        self.walk = GlobWalk(globs)
        self.cells = self.walk.cells(paths)


class _Takers:
    """Which places a name leads on from. A literal is found by its name, `*.py` and `test_*` by their fixed end."""

    def __init__(self, positions: dict[Component, int]) -> None:
        self._named: dict[bytes, int] = {}
        self._always = positions.get(EVERYTHING, 0)
        self._wild: dict[Component, int] = {}
        self._token_at: dict[int, Component] = {}
        self._all_wild = 0
        self._known: dict[int, _Wild] = {}
        for token, at in positions.items():
            if token.literal is not None:
                self._named[token.literal] = at
            elif token != EVERYTHING:
                self._wild[token] = at
                self._all_wild |= at
                self._token_at |= dict.fromkeys(bits(at), token)

    def of(self, state: int, name: bytes) -> int:
        """Those of `state`, and possibly more that are not in it."""
        taking = self._always | self._named.get(name, 0)
        active = state & self._all_wild
        if not active:
            return taking
        wild = self._known.get(active)
        if wild is None:
            tokens = dict.fromkeys(self._token_at[at] for at in bits(active))
            wild = self._known[active] = _Wild({token: self._wild[token] for token in tokens})
        return taking | wild.of(name)


class _Wild:
    """Some patterns with wildcards, by what kind they are of."""

    def __init__(self, positions: dict[Component, int]) -> None:
        self._ending: dict[int, dict[bytes, int]] = {}
        self._beginning: dict[int, dict[bytes, int]] = {}
        self._others: list[tuple[Component, int]] = []
        for token, at in positions.items():
            fixed = _plain(token.tokens[1:] if token.tokens[0] is STAR else token.tokens[:-1])
            if fixed is not None and token.tokens[0] is STAR:
                self._ending.setdefault(len(fixed), {})[fixed] = at
            elif fixed is not None and token.tokens[-1] is STAR:
                self._beginning.setdefault(len(fixed), {})[fixed] = at
            else:
                self._others.append((token, at))

    def of(self, name: bytes) -> int:
        taking = 0
        for length, by_end in self._ending.items():
            taking |= by_end.get(name[-length:], 0)
        for length, by_start in self._beginning.items():
            taking |= by_start.get(name[:length], 0)
        for token, at in self._others:
            if token.matches(name):
                taking |= at
        return taking


def _plain(tokens: tuple[int | None, ...]) -> bytes | None:
    """The bytes that they spell, or None if there is a wildcard among them."""
    if any(token is STAR or not is_single(token) for token in tokens):
        return None
    return bytes(token.bit_length() - 1 for token in tokens if token is not STAR)
