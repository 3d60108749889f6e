"""Companion files that were made through this mount.

Only these are fair game for an atomic save: a file that somebody else left under such a name is
theirs. Remembered by path and inode, since the kernel may forget the node of a long-lived swap file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasefs.mount.inodes import Key

# A companion lives for the length of a save; many thousands at once are leftovers.
_LIMIT = 65536


class Companions:
    """Which companion files exist because this mount made them."""

    def __init__(self) -> None:
        self._made: dict[bytes, Key] = {}

    def made(self, path: bytes, key: Key) -> None:
        """A companion was created, or renamed to this name."""
        self._made[path] = key
        if len(self._made) > _LIMIT:
            del self._made[next(iter(self._made))]

    def is_ours(self, path: bytes, key: Key) -> bool:
        """Whether the file at `path` is a companion that this mount made."""
        return self._made.get(path) == key

    def gone(self, path: bytes) -> None:
        """Nothing of ours is at `path` any more."""
        self._made.pop(path, None)
