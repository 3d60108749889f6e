"""What was at each name of a directory when it was looked at last: what foreign writes are told by.

A change is told by comparing two states, never by counting events. Kept for every file of a tree, so it is kept
small: as one piece of bytes for each directory in which nothing happens, deflated to some seventeen for each name.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from leasefs.mount.shapes import Stat

# Of a file that this mount left behind without looking at it: then its ctime is the time at which it was left.
LEFT_HERE = -1
_PERMISSIONS = 0o7777
# More names than that would take the loop more than a millisecond to deflate.
_MOST_DEFLATED = 1_000


class State(NamedTuple):
    """What is at a name, as far as a write would show in it."""

    mode: int
    number: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def is_directory(self) -> bool:
        """Whether a directory is there."""
        return self.mode & 0o170000 == 0o040000

    def is_written_since(self, before: State) -> bool:
        """Whether its bytes may be others, or the whole file is; not by attributes alone."""
        if self.number != before.number:
            return True
        if before.size == LEFT_HERE:
            return self.mtime_ns > before.ctime_ns
        return (self.size, self.mtime_ns) != (before.size, before.mtime_ns)

    def is_changed_since(self, before: State) -> bool:
        """Whether anything was done to it, attributes and further names included."""
        if before.size == LEFT_HERE and self.number == before.number:
            return self.ctime_ns > before.ctime_ns
        return self != before

    def has_other_permissions_than(self, before: State) -> bool:
        """Whether they differ. Those of a file that this mount left behind are not known: then they may."""
        return before.size == LEFT_HERE or (self.mode ^ before.mode) & _PERMISSIONS != 0


def state_of(found: Stat) -> State:
    """The state that a stat describes."""
    facts = found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return tuple.__new__(State, facts)


class Known:
    """One directory's names. `listed` is set once all of them were looked at; `used` whenever one is asked for."""

    __slots__ = ("_is_deflated", "_names", "_packed", "listed", "used")

    def __init__(self) -> None:
        self.listed = False
        self.used = False
        # While nothing happens, these instead of the dictionary: each name, a slash, its state, and NUL.
        # Neither of the two is in any name.
        self._packed = b""
        self._is_deflated = False
        self._names: dict[bytes, State | bytes] | None = {}

    def get(self, name: bytes) -> State | None:
        """What was there, or None if nothing was."""
        self.used = True
        names = self._names
        known = (self._loosened() if names is None else names).get(name)
        return _parse(known) if isinstance(known, bytes) else known

    def put(self, name: bytes, state: State) -> None:
        """This is there now."""
        self.used = True
        names = self._names
        (self._loosened() if names is None else names)[name] = state

    def drop(self, name: bytes) -> None:
        """Nothing is there now."""
        self.used = True
        names = self._names
        (self._loosened() if names is None else names).pop(name, None)

    def items(self) -> list[tuple[bytes, State]]:
        """All names and what was there."""
        self.used = True
        names = self._loosened() if self._names is None else self._names
        return [
            (n, _parse(known) if isinstance(known, bytes) else known) for n, known in names.items()
        ]

    def _loosened(self) -> dict[bytes, State | bytes]:
        text = zlib.decompress(self._packed) if self._is_deflated else self._packed
        parts = (part.partition(b"/") for part in text.split(b"\0")[:-1])
        names: dict[bytes, State | bytes] = {name: state for name, _, state in parts}
        self._names, self._packed = names, b""
        return names

    @property
    def is_packed(self) -> bool:
        """Whether it is small."""
        return self._names is None

    def pack(self) -> None:
        """Make it small, until it is used again."""
        self.used = False
        if self._names is None:
            return
        text = b"".join(
            b"%b/%b\0" % (name, known if isinstance(known, bytes) else _written(known))
            for name, known in self._names.items()
        )
        self._is_deflated = len(self._names) <= _MOST_DEFLATED
        self._packed = zlib.compress(text) if self._is_deflated else text
        self._names = None


def _written(state: State) -> bytes:
    return b"%x/%x/%x/%x/%x" % state


def _parse(raw: bytes) -> State:
    mode, number, size, mtime_ns, ctime_ns = [int(part, 16) for part in raw.split(b"/")]
    return State(mode, number, size, mtime_ns, ctime_ns)
