"""What was at each name of a directory when it was looked at last: what foreign writes are told by.

A change is told by comparing two states, never by counting events. Kept for every file of a tree, so it is kept
small: as one string for each directory, beside which what changed lately lies in a dictionary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.shapes import Stat

# Of a file that this mount left behind without looking at it: then its ctime is the time at which it was left.
LEFT_HERE = -1
# Fewer changes than this are not worth putting a directory's string together anew.
_FEWEST = 64
_PERMISSIONS = 0o7777


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
    return State(found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class Known:
    """One directory's names. `listed` is set once all of them were looked at."""

    __slots__ = ("_changed", "_count", "_text", "listed")

    def __init__(self) -> None:
        self.listed = False
        # Each name as NUL, name, slash, state; NUL at the end. Neither is in any name.
        self._text = b"\0"
        self._count = 0
        self._changed: dict[bytes, State | None] = {}

    def get(self, name: bytes) -> State | None:
        """What was there, or None if nothing was."""
        if name in self._changed:
            return self._changed[name]
        at = self._text.find(b"\0%b/" % name)
        if at < 0:
            return None
        at += len(name) + 2
        return _parse(self._text[at : self._text.index(b"\0", at)])

    def put(self, name: bytes, state: State) -> None:
        """This is there now."""
        self._changed[name] = state
        if len(self._changed) > max(_FEWEST, self._count):
            self.pack()

    def drop(self, name: bytes) -> None:
        """Nothing is there now."""
        self._changed[name] = None

    def items(self) -> Iterator[tuple[bytes, State]]:
        """All names and what was there. The directory must not be changed meanwhile."""
        for part in self._text.split(b"\0"):
            name, slash, state = part.partition(b"/")
            if slash and name not in self._changed:
                yield name, _parse(state)
        for name, changed in self._changed.items():
            if changed is not None:
                yield name, changed

    def pack(self) -> None:
        """Make it small again."""
        if not self._changed:
            return
        parts = [b"%b/%x/%x/%x/%x/%x" % (name, *state) for name, state in self.items()]
        self._count = len(parts)
        self._text = b"\0" + b"".join(part + b"\0" for part in parts)
        self._changed = {}


def _parse(raw: bytes) -> State:
    mode, number, size, mtime_ns, ctime_ns = [int(part, 16) for part in raw.split(b"/")]
    return State(mode, number, size, mtime_ns, ctime_ns)
