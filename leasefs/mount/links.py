"""The other names of a file with several (hard links).

Writing through one name changes what every name shows, so each name inside the territory has to be
leased. Names that the kernel never looked up are found by one walk over the lower tree, in a worker
thread; what it found about an inode stays true while the inode's ctime and link count stay.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from leasefs.mount.gate import Wanting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.inodes import Inodes, Key, Node
    from leasefs.mount.lower import Lower
    from leasefs.mount.shapes import Stat


@dataclass(frozen=True, slots=True)
class Links:
    """All names of one inode inside the tree, as of a ctime and link count."""

    ctime_ns: int
    count: int
    paths: tuple[bytes, ...]


class LinkedNames:
    """Names of inodes that have more than one."""

    def __init__(self, lower: Lower, inodes: Inodes, skip: bytes | None = None) -> None:
        """`skip` is a directory whose names do not count (the git directory)."""
        self._lower = lower
        self._inodes = inodes
        self._skip = skip
        self._found: dict[Key, Links] = {}
        self._one_walk = trio.Lock()

    def all_names(self, node: Node, found: Stat) -> tuple[bytes, ...]:
        """Every name of the inode inside the tree. Raises `Wanting` if a walk is needed first."""
        known = tuple(self._inodes.paths(node))
        if len(known) == found.st_nlink and self._still_there(node):
            return known
        links = self._found.get(node.key)
        if links is None or (links.ctime_ns, links.count) != (found.st_ctime_ns, found.st_nlink):
            raise Wanting(lambda: self._walk(node))
        return tuple(dict.fromkeys(known + links.paths))

    def _still_there(self, node: Node) -> bool:
        for parent, name in node.names():
            try:
                if not self._inodes.is_same(node, self._lower.lstat(parent, name)):
                    return False
            except OSError:
                return False
        return True

    def touched(self, node: Node, found: Stat) -> None:
        """A change of ours gave the inode a new ctime; its names are the same."""
        links = self._found.get(node.key)
        if links is not None and links.count == found.st_nlink:
            self._found[node.key] = Links(found.st_ctime_ns, found.st_nlink, links.paths)

    async def _walk(self, node: Node) -> None:
        async with self._one_walk:
            root_fd = os.dup(self._lower.root_fd)
            try:
                self._found = await trio.to_thread.run_sync(self._collect, root_fd)
            finally:
                os.close(root_fd)
            now = self._lower.stat(node)
            links = self._found.get(node.key)
            if links is None or links.count == now.st_nlink:
                paths = links.paths if links is not None else ()
                self._found[node.key] = Links(now.st_ctime_ns, now.st_nlink, paths)

    def _collect(self, root_fd: int) -> dict[Key, Links]:
        gathered: dict[Key, Links] = {}
        for path, found in _linked_files(root_fd, b"", self._skip):
            key = self._inodes.key_of(found)
            before = gathered.get(key)
            paths = (*before.paths, path) if before else (path,)
            gathered[key] = Links(found.st_ctime_ns, found.st_nlink, paths)
        return gathered


def _linked_files(
    fd: int, prefix: bytes, skip: bytes | None
) -> Iterator[tuple[bytes, os.stat_result]]:
    directories = []
    with os.scandir(fd) as entries:
        for entry in entries:
            path = prefix + os.fsencode(entry.name)
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(found.st_mode):
                directories.append(path)
            elif found.st_nlink > 1:
                yield path, found
    for path in directories:
        if path == skip:
            continue
        name = path.rpartition(b"/")[2]
        try:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        except OSError:
            continue  # gone, or not ours to read: then no name of ours to write under either
        try:
            yield from _linked_files(below, path + b"/", skip)
        finally:
            os.close(below)
