"""Which inode has which names: the mount's memory of what the kernel knows.

Plain Python, no FUSE types, no system calls. A node is remembered while the kernel counts lookups on
it or while a remembered node hangs below it. Names hang on their parent node, so renaming a
directory touches one node, however much lies below.

Numbers: a node's number is the lower inode number, which is also what users see as `st_ino`. Only
what could clash with another number gets one of its own: other file systems mounted below the root,
lower inode 1 (the kernel means the root by it), lower numbers in the range set aside here, and a lower
number that is in use again while the kernel still remembers the inode that had it. Were the kernel told of
another inode under a number that it knows, it would answer EIO to whoever is on the way to the old one
(`fuse_make_bad`, fs/fuse/inode.c).
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.mount.listing import Listing
    from leasefs.mount.shapes import Stat

ROOT_NUMBER = 1
_KIND_BITS = 0o170000  # S_IFMT of inode(7)
# The kind of a node whose inode is no more while the kernel still remembers it.
GONE = 0
CONTROL_NUMBER = 1 << 63  # the control directory and its files
FIRST_SYNTHETIC = CONTROL_NUMBER + (1 << 16)

# The lower number alone where it is unambiguous, else (device, lower number).
Key = int | tuple[int, int]


class Node:
    """One inode as the kernel knows it. `parent` is None for the root and for nodes without a name."""

    __slots__ = (
        "children",
        "key",
        "kind",
        "linked",
        "listing",
        "lookups",
        "more",
        "name",
        "number",
        "orphan_fd",
        "parent",
        "shown",
        "stamp",
        "told",
        "watch",
        "where",
    )

    def __init__(self, number: int, key: Key, kind: int) -> None:
        self.number = number
        # What users see as `st_ino`: the lower number, also where the kernel is given another one.
        if isinstance(key, int):
            self.shown = key
        else:
            self.shown = key[1] if number == ROOT_NUMBER else number
        self.key = key
        self.kind = kind
        self.lookups = 0
        self.children = 0
        self.parent: Node | None = None
        self.name = b""
        self.more: set[tuple[Node, bytes]] | None = None
        # Whether it was seen with names that need not be known here.
        self.linked = False
        # Kept from the loss of the last name until the kernel forgets the node, so that whoever has
        # it open or is just opening it still reaches it, as on any local file system.
        self.orphan_fd = -1
        # Size and times at the last open: what the kernel's cached pages belong to.
        self.stamp: tuple[int, int, int] | None = None
        # What attributes the kernel may be answering with (see `outside.stamp`); None: it has none.
        self.told: int | None = None
        # Of a directory: its inotify watch, and its entries as they were listed last.
        self.watch = -1
        self.listing: Listing | None = None
        # Its path, and `Inodes.moves` when that was put together.
        self.where: tuple[int, bytes] | None = None

    @property
    def is_dir(self) -> bool:
        """Whether the node is a directory."""
        return self.kind == stat.S_IFDIR

    def is_at(self, parent: Node, name: bytes) -> bool:
        """Whether this is a known name of the node."""
        if self.parent is parent and self.name == name:
            return True
        return self.more is not None and (parent, name) in self.more

    def names(self) -> list[tuple[Node, bytes]]:
        """All known (parent, name) pairs, a copy."""
        names = [(self.parent, self.name)] if self.parent is not None else []
        if self.more:
            names.extend(self.more)
        return names


class Inodes:
    """The table of nodes. `root` is always there."""

    def __init__(self, root: Stat) -> None:
        self.device = root.st_dev
        self.root = Node(ROOT_NUMBER, (root.st_dev, root.st_ino), stat.S_IFDIR)
        self.root.lookups = 1
        self._nodes: dict[Key, Node] = {ROOT_NUMBER: self.root}
        # The node with a number, or None if it was forgotten or never known. Every request asks.
        self.get: Callable[[int], Node | None] = self._nodes.get
        # Those whose number is not their key.
        self._by_key: dict[Key, Node] = {}
        self.is_open: Callable[[Node], bool] = lambda _: False
        # Called with each directory that becomes known, before it has a name.
        self.on_directory: Callable[[Node], None] | None = None
        self._next_synthetic = FIRST_SYNTHETIC
        # Counts whatever may have changed the path of a directory that had one.
        self.moves = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def key_of(self, found: Stat) -> Key:
        """What identifies the inode that `found` describes."""
        number = found.st_ino
        if found.st_dev == self.device and ROOT_NUMBER < number < CONTROL_NUMBER:
            return number
        return (found.st_dev, number)

    def is_same(self, node: Node, found: Stat) -> bool:
        """Whether `found` describes the node's inode and not another one of the same name."""
        if found.st_mode & _KIND_BITS != node.kind:
            return False
        if found.st_ino == node.key and found.st_dev == self.device:
            return True  # nearly always
        key = (found.st_dev, found.st_ino) if node is self.root else self.key_of(found)
        return key == node.key

    def find(self, found: Stat) -> Node | None:
        """The node of the inode that `found` describes, if it is known."""
        key = self.key_of(found)
        node = self._by_key.get(key) or self._nodes.get(key)
        return node if node is not None and found.st_mode & _KIND_BITS == node.kind else None

    def learn(self, parent: Node, name: bytes, found: Stat) -> Node:
        """The node for what was found at this name; creates it or adds the name.

        If the lower number may be in use again, the old inode's node is retired and there is a new one.
        """
        key = self.key_of(found)
        kind = found.st_mode & _KIND_BITS
        node = self._by_key.get(key) or self._nodes.get(key)
        if node is not None:
            if node.kind == kind and node.parent is parent and node.name == name:
                return node
            if node.kind != kind or self._may_be_another(node, found):
                self.retire(node)
                node = None
        if node is None:
            node = self._create(key, kind)
        self.add_name(node, parent, name)
        return node

    def _may_be_another(self, node: Node, found: Stat) -> bool:
        """Whether a file's number may be in use again: it had other names, or has lost them all, and has one now.

        The kernel may still believe in the old ones, and must not serve there what has the number now. While
        it is open here, or kept for what has no name, it is the same file, renamed by somebody else.
        """
        if node.is_dir or node.orphan_fd >= 0:
            return False
        return found.st_nlink == 1 and not self.is_open(node)

    def _create(self, key: Key, kind: int) -> Node:
        if isinstance(key, int) and key not in self._nodes:
            node = Node(key, key, kind)
        else:
            node = Node(self._next_synthetic, key, kind)
            self._next_synthetic += 1
            self._by_key[key] = node
        self._nodes[node.number] = node
        if kind == stat.S_IFDIR and self.on_directory is not None:
            self.on_directory(node)
        return node

    def _drop_key(self, node: Node) -> None:
        if self._by_key.get(node.key) is node:
            del self._by_key[node.key]

    def retire(self, node: Node) -> None:
        """The node's inode is no more: whatever has its lower number from now on is another one."""
        node.kind = GONE
        self._drop_key(node)
        node.stamp = node.told = None
        for parent, name in node.names():
            self.lose_name(node, parent, name)

    def add_name(self, node: Node, parent: Node, name: bytes) -> None:
        """The node is at this name as well."""
        if node.kind == stat.S_IFDIR:
            # A directory has one name: the newest is true, an older one is a rename made elsewhere.
            for old_parent, old_name in node.names():
                self.lose_name(node, old_parent, old_name)
            if node is parent:
                return
            self._part(parent, node)
            if node.children:
                self.moves += 1
        if node.parent is None:
            node.parent, node.name = parent, name
        else:
            node.more = node.more or set()
            if (parent, name) in node.more:
                return
            node.more.add((parent, name))
        parent.children += 1

    def _part(self, directory: Node, above: Node) -> None:
        """What is about to lie in `directory` was above it: somebody moved what is between, unheard of yet.

        Without this the two would lie below each other, and a path would have no end.
        """
        here: Node | None = directory
        while here is not None:
            if here.parent is above:
                self.lose_name(here, above, here.name)
                return
            here = here.parent

    def lose_name(self, node: Node, parent: Node, name: bytes) -> None:
        """The node is no longer at this name."""
        if node.kind != stat.S_IFREG:
            self.moves += 1
        if node.parent is parent and node.name == name:
            node.parent, node.name = None, b""
            if node.more:
                node.parent, node.name = node.more.pop()
        elif node.more and (parent, name) in node.more:
            node.more.discard((parent, name))
        else:
            return
        if not node.more:
            node.more = None
        parent.children -= 1

    def move(self, node: Node, old: Node, old_name: bytes, new: Node, new_name: bytes) -> None:
        """The node is no longer at the old name but at the new one. Everything below it moves along."""
        self.lose_name(node, old, old_name)
        self.add_name(node, new, new_name)

    def path(self, node: Node) -> bytes | None:
        """The node's path relative to the root, or None if it has no name (any more)."""
        if node.parent is not None:
            return self.path_at(node.parent, node.name)
        return b"" if node is self.root else None

    def path_at(self, directory: Node, name: bytes) -> bytes | None:
        """The path of a name in a directory, or None if the directory has no name (any more)."""
        where = directory.where
        above = where[1] if where and where[0] == self.moves else self._path_anew(directory)
        if above:
            return above + b"/" + name
        return name if above is not None else None

    def _path_anew(self, directory: Node) -> bytes | None:
        """Put a directory's path together, and keep it."""
        parts: list[bytes] = []
        node = directory
        while node is not self.root:
            if node.parent is None:
                return None
            parts.append(node.name)
            node = node.parent
        parts.reverse()
        path = b"/".join(parts)
        directory.where = self.moves, path
        return path

    def paths(self, node: Node) -> list[bytes]:
        """Every known path of a node (hard links)."""
        if not node.more:
            path = self.path(node)
            return [] if path is None else [path]
        found = (self.path_at(parent, name) for parent, name in node.names())
        return [path for path in found if path is not None]

    def is_below(self, node: Node, directory: Node) -> bool:
        """Whether a name of `node` lies below `directory`, or is it."""
        for parent, _ in node.names():
            above: Node | None = parent
            while above is not None:
                if above is directory:
                    return True
                above = above.parent
        return node is directory

    def forget(self, number: int, lookups: int) -> list[Node]:
        """The kernel dropped `lookups` references. Returns the nodes that are gone for good.

        A parent that only waited for its last child goes too. The caller closes what it holds open
        for the returned nodes (`orphan_fd`, cached directory descriptors).
        """
        node = self._nodes.get(number)
        if node is None:
            return []
        left = node.lookups - lookups
        node.lookups = max(0, left)
        if left > 0 or node.children:
            return []
        if node.parent is None and node is not self.root:
            # It lost its name before, as what was removed has.
            self._drop(node)
            return [node]
        gone: list[Node] = []
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if node.lookups or node.children or node is self.root or node.number not in self._nodes:
                continue
            for parent, name in node.names():
                waiting.append(parent)
                self.lose_name(node, parent, name)
            self._drop(node)
            gone.append(node)
        return gone

    def _drop(self, node: Node) -> None:
        del self._nodes[node.number]
        self._drop_key(node)

    def drop_unknown(self, node: Node) -> list[Node]:
        """Drop a node that was learnt on the way but never told to the kernel."""
        return self.forget(node.number, 0)
