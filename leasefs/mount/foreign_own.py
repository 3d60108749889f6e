"""What this mount did itself lately: what explains a difference that an event led to.

The kernel queues an event before the call that caused it returns. So whatever is done here before the queue is
read has its event in what is then read, or in what was read before; and once all of that is looked at, nothing
of it is left to explain. That is how long things are kept here: no time is involved, and no event is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasefs.mount.inodes import Node


class OwnChanges:
    """Inodes that were changed here, and names that were changed here of which the kernel was told since.

    What was done to a name is as in `echoes.Echoes`: a node or True if something was made, False if taken away.
    """

    def __init__(self) -> None:
        self._inodes: set[int] = set()
        self._names: dict[tuple[int, bytes], Node | bool] = {}
        # Done before the queue was read last.
        self._inodes_before: set[int] = set()
        self._names_before: dict[tuple[int, bytes], Node | bool] = {}
        # Done before events were lost, kept as long as somebody looks at all of the tree again.
        self._inodes_kept: set[int] = set()
        self._names_kept: dict[tuple[int, bytes], Node | bool] = {}

    def changed(self, node: Node) -> None:
        """Bytes or attributes of this node are about to change, or have just changed."""
        key = node.key
        self._inodes.add(key if isinstance(key, int) else key[1])

    def told(self, directory: int, name: bytes, act: Node | bool) -> None:
        """The kernel was told anew of a name that was changed here: nobody else remembers that."""
        self._names[directory, name] = act

    def turn(self) -> None:
        """The queue is about to be read."""
        if self._inodes:
            self._inodes_before |= self._inodes
            self._inodes = set()
        if self._names:
            self._names_before |= self._names
            self._names = {}

    def settled(self) -> None:
        """All that was read is looked at."""
        if self._inodes_before:
            self._inodes_before = set()
        if self._names_before:
            self._names_before = {}

    def keep(self, names: dict[tuple[int, bytes], Node | bool]) -> None:
        """Events were lost: keep what was done until `let_go`, these `names` included."""
        self._inodes_kept |= self._inodes_before | self._inodes
        self._names_kept |= {**self._names_before, **self._names, **names}

    def let_go(self) -> None:
        """All of the tree was looked at."""
        self._inodes_kept = set()
        self._names_kept = {}

    def has_changed(self, inode: int) -> bool:
        """Whether this lower inode was changed here."""
        return inode in self._inodes_before or inode in self._inodes or inode in self._inodes_kept

    def act(self, directory: int, name: bytes) -> Node | bool | None:
        """What was done here to this name, None if nothing was."""
        key = directory, name
        for names in (self._names, self._names_before, self._names_kept):
            if key in names:
                return names[key]
        return None
