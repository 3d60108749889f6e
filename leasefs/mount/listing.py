"""Directory entries as they were told to the kernel, kept for the next time.

The kernel keeps names and attributes, but not which names a directory has (pyfuse3 cannot let it), and a
listing carries all attributes. So each entry is kept ready to be sent, and is used again as long as what
the kernel was told of its inode is still true (`Node.told`). A name that comes or goes through this mount costs
a listing of the names alone; after others changed the directory nothing of it is used again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from leasefs.mount.inodes import Node

# No directory was modified at this time.
_OUTDATED_NS = -1
# About 400 bytes each.
_MOST_ENTRIES = 1 << 16
_IDLE_S = 60.0


class Item:
    """One name. `shown` is the entry in the transport's form, in which alone it is kept."""

    __slots__ = ("name", "node", "shown", "told")

    def __init__(
        self, name: bytes, shown: object, node: Node | None = None, *, lasting: bool = False
    ) -> None:
        """If `lasting`, it may be used again as long as what the kernel was told is true."""
        self.name = name
        self.shown = shown
        self.node = node
        self.told = node.told if node is not None and lasting else None


class Listing:
    """The names of one directory at one time, and what is known of each. Positions never change."""

    __slots__ = ("items", "mtime_ns", "names")

    def __init__(self, names: list[bytes], mtime_ns: int) -> None:
        self.names = names
        self.mtime_ns = mtime_ns
        self.items: list[Item | None] = [None] * len(names)

    def outdate(self) -> None:
        """A name came or went through this mount; what is known of the others is as true as it was."""
        self.mtime_ns = _OUTDATED_NS

    @property
    def is_outdated(self) -> bool:
        """Whether there may be other names by now."""
        return self.mtime_ns == _OUTDATED_NS

    def take_over(self, directory: Node, former: Listing) -> None:
        """Use what was known of the same names in the directory's former listing, which this mount outdated."""
        known = dict(zip(former.names, former.items, strict=True))
        for at, name in enumerate(self.names):
            item = known.get(name)
            # It may have changed places with another.
            if item is not None and item.node is not None and item.node.is_at(directory, name):
                self.items[at] = item


class Listings:
    """Listings by directory (`Node.listing`), the least recently used of them dropped when many."""

    def __init__(self, most: int = _MOST_ENTRIES) -> None:
        self._most = most
        self._kept: OrderedDict[Node, int] = OrderedDict()
        self._entries = 0
        self._used = False

    async def tidy(self) -> None:
        """Give all memory back whenever nobody has listed anything for a while; runs until cancelled."""
        while True:
            await trio.sleep(_IDLE_S)
            if not self._used:
                self._clear()
            self._used = False

    def known(self, directory: Node, mtime_ns: int) -> Listing | None:
        """The directory's listing, if it is still that of this modification time."""
        self._used = True
        listing = directory.listing
        if listing is None or listing.mtime_ns != mtime_ns:
            return None
        if directory in self._kept:
            self._kept.move_to_end(directory)
        return listing

    def keep(self, directory: Node, listing: Listing) -> None:
        """Keep a new listing."""
        self._entries += len(listing.names) - self._kept.pop(directory, 0)
        self._kept[directory] = len(listing.names)
        directory.listing = listing
        while self._entries > self._most and self._kept:
            self.forget(next(iter(self._kept)))

    def forget(self, directory: Node) -> None:
        """Give the memory of a directory's listing back."""
        self._entries -= self._kept.pop(directory, 0)
        directory.listing = None

    def _clear(self) -> None:
        for directory in list(self._kept):
            self.forget(directory)
