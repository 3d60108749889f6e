"""Operations that change nothing: lookup, attributes, listing, reading."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from leasefs.mount.handles import OpenDirectory, OpenFile, OpenVirtual
from leasefs.mount.timeouts import ENTRY_S
from leasefs.mount.tree import Entry, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.inodes import Node

# "." and ".." come first; names follow by their place in the stream's list.
_DOTS = 2


def lookup(tree: Tree, parent_number: int, name: bytes, thread: int = 0) -> Entry | None:
    """What is at a name, or None: nothing, which the kernel may remember for a moment."""
    if tree.control.owns(parent_number):
        number = tree.control.find(name)
        return Entry(number, 0, tree.control.stat(number))
    parent = tree.node(parent_number)
    if parent is tree.inodes.root and name == tree.control.name:
        return Entry(tree.control.number, 0, tree.control.stat(tree.control.number))
    found = tree.look(parent, name)
    if (parent_number, name) in tree.redirects.by_place:
        tree.redirects.looked_up((parent_number, name), found, thread)
    return None if found is None else tree.entry(parent, name, found)


def getattr_(tree: Tree, number: int) -> Entry:
    """The attributes of an inode."""
    if tree.control.owns(number):
        return Entry(number, 0, tree.control.stat(number))
    node = tree.node(number)
    return Entry(number, node.generation, tree.stat(node))


def readlink(tree: Tree, number: int) -> bytes:
    """The text of a symlink, as it is."""
    return tree.lower.readlink(tree.node(number))


def open_directory(tree: Tree, number: int) -> int:
    """Open a directory for listing; returns the handle."""
    if tree.control.owns(number):
        names = [name for name, _ in tree.control.files()]
        return tree.handles.add(OpenVirtual(names=names))
    node = tree.node(number)
    if not node.is_dir:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return tree.handles.add(OpenDirectory(tree.lower.open_listing(node), node))


def list_directory(tree: Tree, handle: int, start: int) -> Iterator[tuple[bytes, Entry, int]]:
    """Names with attributes from position `start` on, each with the position after it.

    The list is taken when reading starts and anew after rewinddir(3). The lookup of an entry is
    counted by `told`, once the kernel took it.
    """
    stream = tree.handles.get(handle)
    if isinstance(stream, OpenVirtual):
        yield from _list_control(tree, start)
    elif isinstance(stream, OpenDirectory):
        yield from _list_lower(tree, stream, start)
    else:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _list_lower(
    tree: Tree, stream: OpenDirectory, start: int
) -> Iterator[tuple[bytes, Entry, int]]:
    if start == 0:
        stream.names = tree.lower.names(stream.fd)
    node = stream.node
    if start < _DOTS:
        yield from _dots(tree, stream, start)
    for at in range(max(0, start - _DOTS), len(stream.names)):
        name = stream.names[at]
        if node is tree.inodes.root and name == tree.control.name:
            continue
        try:
            found = os.stat(name, dir_fd=stream.fd, follow_symlinks=False)
        except FileNotFoundError:
            continue
        child = tree.inodes.learn(node, name, found)
        try:
            entry_s = tree.redirects.brief.get(child.number, ENTRY_S)
            yield name, Entry(child.number, child.generation, found, entry_s), at + _DOTS + 1
        finally:
            if not child.lookups:
                for gone in tree.inodes.drop_unknown(child):
                    tree.lower.forget(gone)


def _dots(tree: Tree, stream: OpenDirectory, start: int) -> Iterator[tuple[bytes, Entry, int]]:
    here = os.fstat(stream.fd)
    if start == 0:
        yield b".", Entry(_shown_number(tree, stream.node), 0, here), 1
    yield b"..", Entry(_shown_number(tree, stream.node.parent or stream.node), 0, here), _DOTS


def _shown_number(tree: Tree, node: Node) -> int:
    return os.fstat(tree.lower.root_fd).st_ino if node is tree.inodes.root else node.number


def told(tree: Tree, entry: Entry) -> None:
    """The kernel took this entry of a listing; it will forget it one day."""
    node = tree.inodes.get(entry.number)
    if node is not None:
        node.lookups += 1


def _list_control(tree: Tree, start: int) -> Iterator[tuple[bytes, Entry, int]]:
    here = tree.control.stat(tree.control.number)
    entries = [(b".", tree.control.number), (b"..", tree.control.number), *tree.control.files()]
    for at in range(start, len(entries)):
        name, number = entries[at]
        found = here if at < _DOTS else tree.control.stat(number)
        yield name, Entry(number, 0, found), at + 1


def read(tree: Tree, handle: int, offset: int, size: int) -> bytes:
    """Bytes of an open file; fewer than asked only at its end."""
    file = tree.handles.get(handle)
    if isinstance(file, OpenVirtual):
        return file.content[offset : offset + size]
    if not isinstance(file, OpenFile):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    data = os.pread(file.fd, size, offset)
    while data and len(data) < size:
        more = os.pread(file.fd, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def statfs(tree: Tree) -> os.statvfs_result:
    """The lower file system's figures."""
    return os.fstatvfs(tree.lower.root_fd)


def get_xattr(tree: Tree, number: int, name: bytes) -> bytes:
    """An extended attribute. ENODATA if it is not set."""
    if tree.control.owns(number):
        raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
    node = tree.node(number)
    for file in tree.handles.files_of(node):
        # The kernel asks for security.capability before each write: answer with one call.
        return os.getxattr(file.fd, name)
    if stat.S_ISLNK(node.kind) and name.startswith(b"system.posix_acl"):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    with tree.lower.pinned(node) as path:
        return os.getxattr(path, name)


def list_xattrs(tree: Tree, number: int) -> list[bytes]:
    """The names of an inode's extended attributes."""
    if tree.control.owns(number):
        return []
    with tree.lower.pinned(tree.node(number)) as path:
        return [os.fsencode(name) for name in os.listxattr(path)]
