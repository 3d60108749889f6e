r"""The pattern of one path component: byte sets in a row, and stars between them.

A name has at least one byte, is neither `.` nor `..`, and holds no slash and no NUL; that much is
common to everything decided here. How long names may be is not part of any decision between globs
(the answer then errs to the refusing side, for names that no Linux file system can hold).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from leasefs.core.automaton import STAR, Budget, Meeting, Union, endings
from leasefs.core.bytesets import ANY, class_text, is_single, readable_member, representatives

if TYPE_CHECKING:
    from collections.abc import Iterator

_DOT = 1 << ord(".")
_NOT_NAMES: tuple[tuple[int | None, ...], ...] = ((), (_DOT,), (_DOT, _DOT))
_SPECIAL = frozenset(b"*?[\\")


class Component:
    """An immutable pattern for one name; equal patterns are spelt equally."""

    __slots__ = ("_between", "_hash", "_head", "_tail", "least_bytes", "literal", "tokens")

    def __init__(self, tokens: tuple[int | None, ...]) -> None:
        self.tokens = _normal(tokens)
        self._hash = hash(self.tokens)
        self.literal = _literal(self.tokens)
        self.least_bytes = sum(token is not STAR for token in self.tokens)
        runs = _runs(self.tokens)
        self._head, self._tail = runs[0], runs[-1]
        self._between = None if len(runs) == 1 else tuple(run for run in runs[1:-1] if run)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Component) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_everything(self) -> bool:
        """Whether every name matches."""
        return self.tokens == (STAR,)

    @property
    def wildcards(self) -> int:
        """How many of its tokens are not a single byte."""
        return sum(token is STAR or not is_single(token) for token in self.tokens)

    def text(self) -> bytes:
        """The glob text of this component."""
        if self.literal is not None and _SPECIAL.isdisjoint(self.literal):
            return self.literal
        return b"".join(map(_token_text, self.tokens))

    def matches(self, name: bytes) -> bool:
        """Whether `name`, which must be a possible name, matches. Costs length times length at most.

        Each run of bytes between two stars is placed as far left as it goes: no choice of a later
        place could help, so nothing is ever tried twice.
        """
        if self.literal is not None:
            return name == self.literal
        if len(name) < self.least_bytes:
            return False
        if self._between is None:
            return len(name) == len(self._head) and _fits(self._head, name, 0)
        end = len(name) - len(self._tail)
        if not (_fits(self._head, name, 0) and _fits(self._tail, name, end)):
            return False
        at = len(self._head)
        for run in self._between:
            at = _find(run, name, at, end)
            if at < 0:
                return False
            at += len(run)
        return True


_Run = bytes | tuple[int, ...]


def _normal(tokens: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Stars collapse and follow the `?` beside them; a lone `?*` is `*`, as no name is empty."""
    normal: list[int | None] = []
    for loose, group in groupby(tokens, lambda token: token is STAR or token == ANY):
        run = list(group)
        if loose and STAR in run:
            run = [token for token in run if token is not STAR] + [STAR]
        normal += run
    return (STAR,) if normal == [ANY, STAR] else tuple(normal)


def _literal(tokens: tuple[int | None, ...]) -> bytes | None:
    if any(token is STAR or not is_single(token) for token in tokens):
        return None
    return bytes(token.bit_length() - 1 for token in tokens if token is not STAR)


def _runs(tokens: tuple[int | None, ...]) -> list[_Run]:
    """What stands before, between and after the stars; plain bytes where that is possible."""
    runs: list[list[int]] = [[]]
    for token in tokens:
        if token is STAR:
            runs.append([])
        else:
            runs[-1].append(token)
    plain = [_literal(tuple(run)) for run in runs]
    return [tuple(run) if name is None else name for run, name in zip(runs, plain, strict=True)]


def _fits(run: _Run, name: bytes, at: int) -> bool:
    if isinstance(run, bytes):
        return name.startswith(run, at)
    return all(token >> value & 1 for token, value in zip(run, name[at:], strict=False))


def _find(run: _Run, name: bytes, at: int, end: int) -> int:
    if isinstance(run, bytes):
        return name.find(run, at, end)
    last = end - len(run)
    return next((place for place in range(at, last + 1) if _fits(run, name, place)), -1)


def _token_text(token: int | None) -> bytes:
    if token is STAR:
        return b"*"
    if token == ANY:
        return b"?"
    if not is_single(token):
        return class_text(token)
    value = token.bit_length() - 1
    return b"\\" * (value in _SPECIAL) + bytes([value])


EVERYTHING = Component((STAR,))


@lru_cache(maxsize=16384)
def literal_component(name: bytes) -> Component:
    """The component that matches exactly `name`."""
    return Component(tuple(1 << value for value in name))


@lru_cache(maxsize=16384)
def common_name(left: Component, right: Component) -> bytes | None:
    """A short, readable name that both match, or None if there is none."""
    if left.literal is not None:
        return left.literal if right.matches(left.literal) else None
    if right.literal is not None:
        return right.literal if left.matches(right.literal) else None
    meeting = Meeting(left.tokens, right.tokens, lambda mine, yours: bool(mine & yours))
    return _name_at(meeting) if meeting.possible() else None


def _name_at(meeting: Meeting[int]) -> bytes | None:
    """A common word that is a name: not dots only, unless three, so decided within three bytes."""
    pairs, dots = {(0, 0)}, b""
    for wanted in (ANY & ~_DOT, ANY & ~_DOT, ANY):
        moves = [move for pair in pairs for move in _moves(meeting, *pair)]
        names = [
            dots + bytes([readable_member(taken & wanted)]) + _rest(meeting, *to)
            for taken, to in moves
            if taken & wanted and meeting.possible(*to)
        ]
        if names:
            return min(names, key=lambda name: (len(name), name))
        pairs = {to for taken, to in moves if taken & _DOT}
        dots += b"."
    return None


def _moves(meeting: Meeting[int], left_at: int, right_at: int) -> list[tuple[int, tuple[int, int]]]:
    """Every way to take one byte in both patterns: which bytes, and the positions after it."""
    return [
        (mine & yours, (left_to, right_to))
        for mine, left_to in _takers(meeting.left, left_at)
        for yours, right_to in _takers(meeting.right, right_at)
    ]


def _takers(tokens: tuple[int | None, ...], at: int) -> list[tuple[int, int]]:
    if at == len(tokens):
        return []
    token = tokens[at]
    if token is not STAR:
        return [(token, at + 1)]
    return [(ANY, at), *_takers(tokens, at + 1)]


def _rest(meeting: Meeting[int], left_at: int, right_at: int) -> bytes:
    pairs = meeting.word(left_at, right_at)
    return bytes(
        readable_member((ANY if mine is STAR else mine) & (ANY if yours is STAR else yours))
        for mine, yours in pairs
    )


def least_covered_names(
    wanted: Component, others: tuple[Component, ...], budget: Budget
) -> list[tuple[bytes, int]]:
    """Names that `wanted` matches, each with the set (bit n: `others[n]`) of others that match it.

    Enough of them that every other name of `wanted` is matched by a superset of one of these sets.

    Raises:
        TooComplex: if the budget is spent.
    """
    if wanted.literal is not None:
        return [(wanted.literal, _matching(wanted.literal, others))]
    # What is no name counts as matched by one more pattern each, and is dropped in the end.
    union = Union([*(other.tokens for other in others), *_NOT_NAMES])
    alphabet = [
        (value, sum(at for byteset, at in union.positions.items() if byteset >> value & 1))
        for value in representatives([*_sets(wanted), *union.positions])
    ]

    def letters(token: int | None, _state: int) -> list[tuple[int, int]]:
        budget.spend(len(alphabet))
        taken = ANY if token is STAR else token
        return [(value, takers) for value, takers in alphabet if taken >> value & 1]

    found: list[tuple[bytes, int]] = []
    for word, matched in endings(wanted.tokens, union, letters, budget):
        if matched >> len(others) == 0:
            found.append((bytes(word), matched))
            if not matched:
                break
    return [
        (name, matched)
        for name, matched in found
        if not any(less != matched and less & matched == less for _, less in found)
    ]


def _sets(component: Component) -> Iterator[int]:
    return (token for token in component.tokens if token is not STAR)


def _matching(name: bytes, others: tuple[Component, ...]) -> int:
    return sum(1 << number for number, other in enumerate(others) if other.matches(name))
