r"""Sets of bytes as 256-bit integers, and the `[...]` classes of globs that write them down.

Reading a class follows git's wildmatch (`wildmatch.c`, case `'['`), but refuses what would silently
match less than its reader thinks: a class that can match nothing; a range that runs backwards (the
file name `[[...sign-in]]` has one); and a byte above 127, since a class matches one *byte* and `[é]`
would match half a character.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SLASH = 1 << ord("/")
# What one wildcard may match: no component contains a slash, and no path a NUL.
ANY = ((1 << 256) - 1) & ~SLASH & ~1

# git's own ctype tables (ctype.c), so independent of any locale: no vertical tab, no form feed.
_SPACE = b" \t\n\r"
_UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_ALPHA = _UPPER + _LOWER
_DIGIT = b"0123456789"
_GRAPH = bytes(range(0x21, 0x7F))
_NAMED: dict[bytes, bytes] = {
    b"alnum": _ALPHA + _DIGIT,
    b"alpha": _ALPHA,
    b"blank": b" \t",
    b"cntrl": bytes([*range(0x20), 0x7F]),
    b"digit": _DIGIT,
    b"graph": _GRAPH,
    b"lower": _LOWER,
    b"print": b" " + _GRAPH,
    b"punct": bytes(sorted(set(_GRAPH) - set(_ALPHA + _DIGIT))),
    b"space": _SPACE,
    b"upper": _UPPER,
    b"xdigit": _DIGIT + b"abcdefABCDEF",
}
_HIGH = ANY & ~((1 << 128) - 1)
_SPECIAL_IN_CLASS = frozenset(b"]\\-[!^")
# Names that people read easily come first when one byte of a set has to be named.
_READABLE = _LOWER + _DIGIT + _UPPER + b"_-+.,= "


class BadClass(Exception):
    """A class that cannot be read: `position` counts from the start of the pattern."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position
        self.problem = problem


def set_of(values: Iterable[int]) -> int:
    """The set of these bytes."""
    found = 0
    for value in values:
        found |= 1 << value
    return found


def members(byteset: int) -> Iterator[int]:
    """The bytes in the set, in order."""
    while byteset:
        lowest = byteset & -byteset
        yield lowest.bit_length() - 1
        byteset ^= lowest


def is_single(byteset: int) -> bool:
    """Whether exactly one byte is in the set."""
    return byteset & (byteset - 1) == 0


def readable_member(byteset: int) -> int:
    """One byte of a set that is not empty, a letter or a digit if there is one."""
    for value in _READABLE:
        if byteset >> value & 1:
            return value
    printable = byteset & (_HIGH - 1) & ~((1 << 0x20) - 1) & ~(1 << 0x7F)
    return next(members(printable or byteset))


def representatives(bytesets: Iterable[int]) -> list[int]:
    """One byte of each group that none of the sets tells apart, the readable ones first."""
    groups = [ANY]
    for byteset in set(bytesets):
        parts = ((group & byteset, group & ~byteset) for group in groups)
        groups = [part for pair in parts for part in pair if part]
    return sorted(map(readable_member, groups), key=_unreadability)


def _unreadability(value: int) -> tuple[int, int]:
    rank = _READABLE.find(value)
    return (len(_READABLE) if rank < 0 else rank, value)


def read_class(pattern: bytes, start: int) -> tuple[int, int]:
    """The set that the class opening at `start` stands for, and the position after its `]`.

    Raises:
        BadClass: if it is not closed, names an unknown POSIX class, lists a byte above 127, has a
            range that runs backwards, or can match nothing.
    """
    at = start + 1
    negated = pattern[at : at + 1] in {b"!", b"^"}
    at += negated
    found, before, first = 0, None, at
    while first == at or pattern[at : at + 1] != b"]":
        members_here, before, at = _read_item(pattern, start, at, before)
        found |= members_here
    if negated:
        found = ~found
    if not found & ANY:
        raise BadClass(start, "this class can match no byte of a name")
    return found & ANY, at + 1


def _read_item(
    pattern: bytes, start: int, at: int, before: int | None
) -> tuple[int, int | None, int]:
    """One item of a class: its set, the byte a range could start from, and the position after."""
    if pattern[at : at + 2] == b"[:":
        named = _read_named(pattern, start, at)
        if named is not None:
            return named[0], None, named[1]
    elif pattern[at : at + 1] == b"-" and before is not None and pattern[at + 1 : at + 2] != b"]":
        last, after = _read_byte(pattern, start, at + 1)
        if last < before:
            raise BadClass(
                at, "this range runs backwards; use --literal if a name is meant as it stands"
            )
        return set_of(range(before, last + 1)), None, after
    value, at = _read_byte(pattern, start, at)
    return 1 << value, value, at


def _read_named(pattern: bytes, start: int, at: int) -> tuple[int, int] | None:
    end = pattern.find(b"]", at + 2)
    if end < 0:
        raise BadClass(start, "`[` is not closed; write `\\[` for the character itself")
    if end == at + 2 or pattern[end - 1 : end] != b":":
        return None
    named = pattern[at + 2 : end - 1]
    if named not in _NAMED:
        raise BadClass(at, "there is no such POSIX class")
    return set_of(_NAMED[named]), end + 1


def _read_byte(pattern: bytes, start: int, at: int) -> tuple[int, int]:
    at += pattern[at : at + 1] == b"\\"
    if at >= len(pattern):
        raise BadClass(start, "`[` is not closed; write `\\[` for the character itself")
    if pattern[at] > 0x7F:
        raise BadClass(at, "a class lists single bytes, and this is part of a longer character")
    return pattern[at], at + 1


def class_text(byteset: int) -> bytes:
    """The one way to write the set as a class that `read_class` reads back.

    Bytes above 127 come all or none, so a set with them is written negated.
    """
    if byteset & _HIGH:
        return b"[!" + _ranges(ANY & ~byteset) + b"]"
    return b"[" + _ranges(byteset) + b"]"


def _ranges(byteset: int) -> bytes:
    written = bytearray()
    values = list(members(byteset))
    while values:
        length = 1
        while length < len(values) and values[length] == values[0] + length:
            length += 1
        run, values = values[:length], values[length:]
        if length > 2:
            written += _in_class(run[0]) + b"-" + _in_class(run[-1])
        else:
            written += b"".join(map(_in_class, run))
    return bytes(written)


def _in_class(value: int) -> bytes:
    return b"\\" * (value in _SPECIAL_IN_CLASS) + bytes([value])
