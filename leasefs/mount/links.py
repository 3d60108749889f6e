"""The other names of a file with several (hard links).

Writing through one name changes what every name shows, so each name inside the territory has to be
leased. Names that the kernel never looked up are found by one walk over the lower tree, in a worker
thread; what it found about an inode stays true while the inode's ctime and link count stay. Where a
walk could not look everywhere, it fails: a name that was overlooked would be written unleased.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from leasefs.mount.gate import Wanting

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from leasefs.mount.inodes import Inodes, Key, Node
    from leasefs.mount.lower import Lower
    from leasefs.mount.shapes import Stat

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# What says that there is no directory of this name (any more).
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


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
        self._skip = frozenset() if skip is None else frozenset({skip})
        self._found: dict[Key, Links] = {}
        self._one_walk = trio.Lock()

    def all_names(self, node: Node, look: Callable[[], Stat]) -> tuple[bytes, ...]:
        """Every name of the inode inside the tree; `look` tells its attributes.

        Raises `Wanting` if a walk is needed first.
        """
        found = look()
        known = self._present(node)
        if len(known) == found.st_nlink:
            return known
        links = self._found.get(node.key)
        if links is None or (links.ctime_ns, links.count) != (found.st_ctime_ns, found.st_nlink):
            raise Wanting(lambda: self._walk(node, look))
        return tuple(dict.fromkeys(known + links.paths))

    def _present(self, node: Node) -> tuple[bytes, ...]:
        """The names that the kernel knows, as far as they still lead to the inode."""
        found = []
        for parent, name in node.names():
            above = self._inodes.path(parent)
            if above is not None and self._leads_to(node, parent, name):
                found.append(above + b"/" + name if above else name)
        return tuple(found)

    def _leads_to(self, node: Node, parent: Node, name: bytes) -> bool:
        try:
            return self._inodes.is_same(node, self._lower.lstat(parent, name))
        except OSError:
            return False

    def touched(self, node: Node, found: Stat) -> None:
        """A change of ours gave the inode a new ctime; its names are the same."""
        links = self._found.get(node.key)
        if links is not None and links.count == found.st_nlink:
            self._found[node.key] = Links(found.st_ctime_ns, found.st_nlink, links.paths)

    async def _walk(self, node: Node, look: Callable[[], Stat]) -> None:
        async with self._one_walk:
            before = look()
            # Whoever waits may be interrupted; the walk then comes to its end unheard.
            self._found = await trio.to_thread.run_sync(
                self._collect, self._lower.root_fd, node.key, abandon_on_cancel=True
            )
            now = look()
            links = self._found.get(node.key) or Links(0, now.st_nlink, ())
            # A name that moves during a walk may be missed. If some of the inode's names were not seen,
            # they lie outside for certain only if it did not change meanwhile.
            complete = len(links.paths) == now.st_nlink or before.st_ctime_ns == now.st_ctime_ns
            if complete and links.count == now.st_nlink:
                self._found[node.key] = Links(now.st_ctime_ns, now.st_nlink, links.paths)
            else:
                self._found.pop(node.key, None)

    def _collect(self, root_fd: int, wanted: Key) -> dict[Key, Links]:
        gathered: dict[Key, Links] = {}
        for path, found in files_below(root_fd, self._skip):
            key = self._inodes.key_of(found)
            if found.st_nlink == 1 and key != wanted:
                continue
            before = gathered.get(key)
            paths = (*before.paths, path) if before else (path,)
            gathered[key] = Links(found.st_ctime_ns, found.st_nlink, paths)
        return gathered


def files_below(
    root_fd: int, skip: Container[bytes] = ()
) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every path below that is no directory; what is below the directories `skip` is left out.

    Without recursion: a tree may be deeper than our stack. Raises OSError where it cannot look.
    """
    open_directories: list[tuple[int, bytes, list[bytes]]] = []
    entered, prefix = os.dup(root_fd), b""
    try:
        while True:
            below: list[bytes] = []
            open_directories.append((entered, prefix, below))
            yield from _listing(entered, prefix, below)
            entered = -1
            while entered < 0:
                directory, prefix, names = open_directories[-1]
                if names:
                    prefix += names.pop()
                    entered = -1 if prefix in skip else _enter(directory, prefix)
                    prefix += b"/"
                    continue
                os.close(directory)
                open_directories.pop()
                if not open_directories:
                    return
    finally:
        for directory, _, _ in open_directories:
            os.close(directory)


def _listing(
    directory: int, prefix: bytes, below: list[bytes]
) -> Iterator[tuple[bytes, os.stat_result]]:
    """The files of one directory; the names of directories go to `below`."""
    with os.scandir(directory) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(found.st_mode):
                below.append(name)
            else:
                yield prefix + name, found


def _enter(above: int, path: bytes) -> int:
    """Open a directory, or -1 if no file of ours can be below it."""
    name = path.rpartition(b"/")[2]
    try:
        return os.open(name, _OPEN, dir_fd=above)
    except OSError as error:
        if error.errno in _GONE or (error.errno == errno.EACCES and not _may_pass(above, name)):
            return -1
        raise


def _may_pass(above: int, name: bytes) -> bool:
    # A directory without the right to list it: files in it can be opened all the same.
    try:
        os.stat(name + b"/.", dir_fd=above)
    except OSError:
        return False
    return True
