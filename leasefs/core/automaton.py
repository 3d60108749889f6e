"""Deciding about sequences with stars: do two share a word, does a union contain one.

Both levels of a glob have this shape. A name is a sequence of byte sets in which a star takes any
bytes; a path is a sequence of name patterns in which a star takes any names. So a pattern here is a
tuple of tokens, `STAR` or something that takes exactly one letter, and the caller says what a
letter is. Sets of positions are integers, one bit a position, so that a step over all positions of
a pattern costs a few machine words. No two stars stand side by side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
L = TypeVar("L")

STAR = None
"""The token that takes any number of letters, also none."""


class TooComplex(Exception):
    """Deciding would cost more steps than allowed; callers take the answer that refuses."""


class Budget:
    """How many steps a decision may still take: a count, so that it never depends on the machine."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Take `steps` off.

        Raises:
            TooComplex: if that is more than was left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooComplex


class Meeting(Generic[T]):
    """Where two patterns, read side by side, can still end together on one common word.

    `meets` says whether some letter is taken by both of two tokens, neither of them a star. Costs
    one call of it per pair of distinct tokens and a few integer operations per token of `left`.
    """

    __slots__ = ("_rows", "left", "right")

    def __init__(
        self, left: tuple[T | None, ...], right: tuple[T | None, ...], meets: Callable[[T, T], bool]
    ) -> None:
        self.left, self.right = left, right
        stars = _mask(at for at, token in enumerate(right) if token is STAR)
        partners: dict[T, int] = {}
        row = 1 << len(right)
        rows = [row | (row >> 1) & stars]
        for token in reversed(left):
            below = rows[-1]
            if token is STAR:
                # It can take whatever stands in `right` up to the last place it may stop at.
                rows.append((1 << below.bit_length()) - 1)
                continue
            if token not in partners:
                partners[token] = _mask(
                    at
                    for at, other in enumerate(right)
                    if other is not STAR and meets(token, other)
                )
            row = (below >> 1) & partners[token] | below & stars
            rows.append(row | (row >> 1) & stars)
        rows.reverse()
        self._rows = rows

    def possible(self, left_at: int = 0, right_at: int = 0) -> bool:
        """Whether the rest of both patterns from these positions on has a common word."""
        return bool(self._rows[left_at] >> right_at & 1)

    def word(self, left_at: int = 0, right_at: int = 0) -> Iterator[tuple[T | None, T | None]]:
        """The pairs of tokens that take the letters of a short common word; needs `possible`."""
        while left_at < len(self.left) or right_at < len(self.right):
            mine = self.left[left_at] if left_at < len(self.left) else STAR
            yours = self.right[right_at] if right_at < len(self.right) else STAR
            if left_at < len(self.left) and mine is STAR and self.possible(left_at + 1, right_at):
                left_at += 1
            elif (
                yours is STAR
                and right_at < len(self.right)
                and self.possible(left_at, right_at + 1)
            ):
                right_at += 1
            else:
                yield mine, yours
                left_at += mine is not STAR
                right_at += yours is not STAR


def _mask(positions: Iterable[int]) -> int:
    found = 0
    for position in positions:
        found |= 1 << position
    return found


class Union(Generic[T]):
    """Several patterns read at once: a state is the set of all positions they may be at.

    Of two states, the one contained in the other accepts less from there on; so a search for what a
    union does not accept only has to follow the least ones.
    """

    __slots__ = ("_stars", "ends", "positions", "start", "tokens_at")

    def __init__(self, patterns: Iterable[tuple[T | None, ...]]) -> None:
        offset = stars = starts = 0
        self.ends: list[int] = []
        self.positions: dict[T, int] = {}
        for pattern in patterns:
            starts |= 1 << offset
            for at, token in enumerate(pattern, offset):
                if token is STAR:
                    stars |= 1 << at
                else:
                    self.positions[token] = self.positions.get(token, 0) | 1 << at
            offset += len(pattern) + 1
            self.ends.append(1 << offset - 1)
        self._stars = stars
        self.tokens_at = _mask_of(self.positions.values())
        self.start = self._closed(starts)

    def after(self, state: int, takers: int) -> int:
        """The state after one letter, taken by the tokens at the positions `takers` and by stars."""
        return self._closed((state & takers) << 1 | state & self._stars)

    def accepted(self, state: int) -> int:
        """Which of the patterns may end here: bit n for the pattern numbered n."""
        return _mask(number for number, end in enumerate(self.ends) if state & end)

    def _closed(self, state: int) -> int:
        return state | (state & self._stars) << 1


def _mask_of(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def endings(
    wanted: tuple[T | None, ...],
    union: Union[T],
    letters: Callable[[T | None, int], Iterable[tuple[L, int]]],
    budget: Budget,
) -> Iterator[tuple[list[L], int]]:
    """Words of `wanted`, shortest first, each with the patterns of `union` that take it too.

    Of all words, enough are given that each other word is taken by a superset of the patterns that
    take one of these. `letters(token, state)` gives letters that the token takes, each with the
    union's positions that take it, likewise enough of them.

    Raises:
        TooComplex: if the budget is spent.
    """
    seen: list[list[int]] = [[] for _ in range(len(wanted) + 1)]
    queue: deque[tuple[int, int, _Trail[L] | None]] = deque()

    def visit(at: int, state: int, trail: _Trail[L] | None) -> None:
        budget.spend(1 + len(seen[at]))
        if all(known & state != known for known in seen[at]):
            seen[at] = [known for known in seen[at] if known & state != state]
            seen[at].append(state)
            queue.append((at, state, trail))

    visit(0, union.start, None)
    while queue:
        at, state, trail = queue.popleft()
        if at == len(wanted):
            yield _spelt(trail), union.accepted(state)
            continue
        if wanted[at] is STAR:
            visit(at + 1, state, trail)
        for letter, takers in letters(wanted[at], state):
            following = at if wanted[at] is STAR else at + 1
            visit(following, union.after(state, takers), (letter, trail))


_Trail = tuple[L, "_Trail[L] | None"]


def _spelt(trail: _Trail[L] | None) -> list[L]:
    word: list[L] = []
    while trail is not None:
        letter, trail = trail
        word.append(letter)
    word.reverse()
    return word
