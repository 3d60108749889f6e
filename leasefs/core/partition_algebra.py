"""Sequences with stars, taken apart: what two have in common, what one has and the other has not.

Like `leasefs.core.automaton` it serves both levels of a glob: names of bytes, and paths of names. A sequence is a tuple of
tokens, `STAR` or one that takes exactly one letter. A result is a list of sequences that together take exactly the words
in question; they may take a word twice. Not every difference can be written so: all names without an `a` would need a
repeated class. Then, and where it would take too many sequences, `Unspellable` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from leasefs.core.automaton import STAR, Budget, Meeting, TooComplex

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T", bound=Hashable)

MOST_SEQUENCES = 256
# `both` follows both sequences by recursion; no component that a person writes comes near.
_MOST_TOKENS = 240
# Enough for leaving a name of 255 bytes out of a pattern with some stars; a count, as in `automaton.Budget`.
_MOST_STEPS = 100_000


class Unspellable(Exception):
    """There is no such list of sequences, or only a very long one."""


Sequence = tuple[T | None, ...]


@dataclass(frozen=True, slots=True)
class Alphabet(Generic[T]):
    """What must be known of letters: the token that takes all of them, and the same three questions about two tokens."""

    any: T
    meets: Callable[[T, T], bool]
    common: Callable[[T, T], list[T]]
    without: Callable[[T, T], list[T]]

    def both(self, mine: Sequence[T], yours: Sequence[T]) -> list[Sequence[T]]:
        """What both take.

        Raises:
            Unspellable: if that would need too many sequences.
        """
        if len(mine) + len(yours) > _MOST_TOKENS:
            raise Unspellable
        return _Both(mine, yours, self).at(0, 0)

    def less(self, mine: Sequence[T], yours: Sequence[T]) -> list[Sequence[T]]:
        """What `mine` takes and `yours` does not.

        Raises:
            Unspellable: see above; always so where `yours` has two stars with something between them.
        """
        try:
            return self._less(mine, yours, Budget(_MOST_STEPS))
        except TooComplex as error:
            raise Unspellable from error

    def _less(self, mine: Sequence[T], yours: Sequence[T], budget: Budget) -> list[Sequence[T]]:
        if not Meeting(mine, yours, self.meets).possible():
            return [mine]
        heads: list[Sequence[T]] = [()]
        found: list[Sequence[T]] = []
        while yours and yours[0] is not STAR:
            budget.spend(1 + len(found))
            if not mine:
                return found + heads
            first = mine[0]
            following = mine if first is STAR else mine[1:]
            wanted = self.any if first is STAR else first
            if first is STAR:
                found += _after(heads, self._less(mine[1:], yours, budget))
            found += _after(heads, [(one, *following) for one in self.without(wanted, yours[0])])
            heads = _after(heads, [(one,) for one in self.common(wanted, yours[0])])
            if not heads:
                return found
            mine, yours = following, yours[1:]
        return found + _after(heads, self._less_starred(mine, yours, budget))

    def _less_starred(
        self, mine: Sequence[T], yours: Sequence[T], budget: Budget
    ) -> list[Sequence[T]]:
        """`less`, where `yours` is empty or begins with a star."""
        if not yours:
            is_loose = all(token is STAR for token in mine)
            return ([(self.any, STAR)] if mine else []) if is_loose else [mine]
        if all(token is STAR for token in yours):
            return []
        if yours[-1] is STAR:
            raise Unspellable
        if mine[-2:] == (self.any, STAR):
            # The same words, and shorter to take apart from behind.
            mine = (*mine[:-2], STAR, self.any)
        return [one[::-1] for one in self._less(mine[::-1], yours[::-1], budget)]


def _after(heads: list[Sequence[T]], tails: Iterable[Sequence[T]]) -> list[Sequence[T]]:
    """Each head with each tail."""
    found = [(*head, *tail) for tail in tails for head in heads]
    if len(found) > MOST_SEQUENCES:
        raise Unspellable
    return found


class _Both(Generic[T]):
    """Both sequences read side by side; each pair of places is looked at once."""

    def __init__(self, mine: Sequence[T], yours: Sequence[T], alphabet: Alphabet[T]) -> None:
        self._mine, self._yours, self._alphabet = mine, yours, alphabet
        self._meeting = Meeting(mine, yours, alphabet.meets)
        self._known: dict[tuple[int, int], list[Sequence[T]]] = {}

    def at(self, left: int, right: int) -> list[Sequence[T]]:
        if (left, right) not in self._known:
            found = self._found(left, right) if self._meeting.possible(left, right) else []
            if len(found) > MOST_SEQUENCES:
                raise Unspellable
            self._known[left, right] = list(dict.fromkeys(found))
        return self._known[left, right]

    def _found(self, left: int, right: int) -> list[Sequence[T]]:
        if left == len(self._mine) or right == len(self._yours):
            return [()]  # they meet, so what is left of the other is a star
        one, other = self._mine[left], self._yours[right]
        if one is STAR and other is STAR:
            tails = self.at(left + 1, right) + self.at(left, right + 1)
            return [(STAR, *tail) for tail in tails]
        if one is STAR:
            assert other is not None  # noqa: S101 - STAR is None
            taken = [(other, *tail) for tail in self.at(left, right + 1)]
            return self.at(left + 1, right) + taken
        if other is STAR:
            taken = [(one, *tail) for tail in self.at(left + 1, right)]
            return self.at(left, right + 1) + taken
        tails = self.at(left + 1, right + 1)
        return [(both, *tail) for both in self._alphabet.common(one, other) for tail in tails]
