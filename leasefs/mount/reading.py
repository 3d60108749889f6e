"""Operations that change nothing: lookup, attributes, listing, reading."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from leasefs.mount.handles import OpenDirectory, OpenFile, OpenVirtual
from leasefs.mount.inodes import GONE
from leasefs.mount.listing import Item, Listing
from leasefs.mount.lower import stale
from leasefs.mount.lower_places import NOT_THERE
from leasefs.mount.timeouts import SURE_S
from leasefs.mount.tree import Entry, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.inodes import Node

# Others may put another directory at a name each time that it is looked at.
_TRIES = 20
# "." and ".." come first; names follow by their place in the stream's list.
_DOTS = 2

# Puts an entry into the form in which the transport sends it.
Encode = Callable[[Entry], object]


def lookup(tree: Tree, parent_number: int, name: bytes, thread: int = 0) -> Entry | None:
    """What is at a name, or None: nothing, which the kernel may remember for a moment."""
    parent = tree.inodes.get(parent_number)
    if parent is None:
        return _lookup_control(tree, parent_number, name)
    if parent is tree.inodes.root and name == tree.control.name:
        number = tree.control.number
        return Entry(number, number, tree.control.stat(number))
    retries = tree.lower.retries
    if retries.told and retries.looks_again(thread) and not tree.redirects.is_at(parent, name):
        return look_again(tree, parent, name, thread)
    found = tree.look(parent, name)
    if found is not None and stat.S_ISDIR(found.st_mode):
        found = _within_reach(tree, parent, name, found)
    if found is None:
        tree.outside.looked_up(parent, name)
        return None
    if tree.redirects.by_place and (parent_number, name) in tree.redirects.by_place:
        entry_s = tree.redirects.looked_up((parent_number, name), found, thread)
        return tree.entry(parent, name, found)._replace(entry_s=entry_s)
    return tree.entry(parent, name, found)


def _within_reach(
    tree: Tree, parent: Node, name: bytes, found: os.stat_result
) -> os.stat_result | None:
    """What is at the name now; if a directory, it is open here, and so reached wherever others move it next.

    What follows upon the answer has to find it: where a name is made, the kernel passes the first ESTALE on
    (filename_create, fs/namei.c).
    """
    for _ in range(_TRIES):
        node = tree.inodes.learn(parent, name, found)
        try:
            tree.lower.directory(node)
        except OSError as error:
            if not node.lookups:
                tree.forget(node.number, 0)
            if error.errno not in NOT_THERE:
                break
        else:
            break
        again = tree.look(parent, name)
        if again is None or not stat.S_ISDIR(again.st_mode):
            return again
        found = again
    return found


def look_again(tree: Tree, parent: Node, name: bytes, thread: int) -> Entry | None:
    """The same for a thread that tries again after ESTALE: what it finds is there for its next request.

    A file is so for this thread alone, and the kernel must not take others there by this answer.
    """
    found = tree.lower.hold(parent, name, thread)
    if found is None:
        tree.outside.looked_up(parent, name)
        return None
    entry = tree.entry(parent, name, found)
    return entry if stat.S_ISDIR(found.st_mode) else entry._replace(entry_s=0.0)


def _lookup_control(tree: Tree, parent_number: int, name: bytes) -> Entry:
    if not tree.control.owns(parent_number):
        raise stale("unknown inode number")
    number = tree.control.find(name)
    return Entry(number, number, tree.control.stat(number))


def nothing_s(tree: Tree, parent_number: int) -> float:
    """For how many seconds the kernel may remember that a name in this directory is not there."""
    node = tree.inodes.get(parent_number)
    return 0.0 if node is None else tree.nothing_s(node)


def getattr_(tree: Tree, number: int) -> Entry:
    """The attributes of an inode."""
    node = tree.inodes.get(number)
    if node is None and tree.control.owns(number):
        return Entry(number, number, tree.control.stat(number))
    node = node or tree.node(number)
    return tree.told(node, tree.stat(node))


def readlink(tree: Tree, number: int) -> bytes:
    """The text of a symlink, as it is."""
    return tree.lower.readlink(tree.node(number))


def open_directory(tree: Tree, number: int) -> int:
    """Open a directory for listing; returns the handle."""
    if tree.control.owns(number):
        names = [name for name, _ in tree.control.files()]
        return tree.handles.add(OpenVirtual(names=names))
    node = tree.node(number)
    if not node.is_dir and node.kind != GONE:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return tree.handles.add(OpenDirectory(tree.lower.open_listing(node), node))


def list_directory(
    tree: Tree, handle: int, start: int, encode: Encode
) -> Iterator[tuple[Item, int]]:
    """Entries from position `start` on, each with the position after it.

    The list of names is taken when reading starts and anew after rewinddir(3); attributes are those of the
    moment, put into the transport's form by `encode`. Whoever took an entry says so with `took`.
    """
    stream = tree.handles.get(handle)
    if isinstance(stream, OpenVirtual):
        yield from _list_control(tree, start, encode)
    elif isinstance(stream, OpenDirectory):
        yield from _list_lower(tree, stream, start, encode)
    else:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _list_lower(
    tree: Tree, stream: OpenDirectory, start: int, encode: Encode
) -> Iterator[tuple[Item, int]]:
    if start < _DOTS:
        yield from _dots(tree, stream, start, encode)
    listing = stream.listing
    if start == 0 or listing is None:
        listing = stream.listing = _listing(tree, stream)
    brief = tree.redirects.brief
    items, names = listing.items, listing.names
    # What the kernel is told is to be so now, also where the stream began before somebody changed it.
    current = stream.node.listing is listing and not listing.is_outdated
    for at in range(max(0, start - _DOTS), len(names)):
        item = items[at]
        if (
            item is None
            or not current
            or item.node is None
            or item.told is None
            or item.told != item.node.told
            or (brief and item.node.number in brief)
        ):
            item = items[at] = _look(tree, stream, names[at], encode)
            if item is None:
                continue
        yield item, at + _DOTS + 1


def _listing(tree: Tree, stream: OpenDirectory) -> Listing:
    mtime_ns = os.fstat(stream.fd).st_mtime_ns
    listing = tree.listings.known(stream.node, mtime_ns)
    if listing is None:
        names = tree.lower.names(stream.fd)
        if stream.node is tree.inodes.root and tree.control.name in names:
            names.remove(tree.control.name)
        listing = Listing(names, mtime_ns)
        former = stream.node.listing
        if former is not None and former.is_outdated:
            listing.take_over(stream.node, former)
        if stream.node.watch >= 0:
            tree.listings.keep(stream.node, listing)
    return listing


def _look(tree: Tree, stream: OpenDirectory, name: bytes, encode: Encode) -> Item | None:
    try:
        found = os.stat(name, dir_fd=stream.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    node = tree.inodes.learn(stream.node, name, found)
    tree.outside.looked_up(stream.node, name)
    entry = tree.told(node, found)
    return Item(name, encode(entry), node, lasting=entry.attr_s == SURE_S)


def took(tree: Tree, item: Item, *, taken: bool) -> None:
    """Whether the kernel took this entry of a listing. If so it will forget it one day."""
    node = item.node
    if node is None:
        return
    if taken:
        node.lookups += 1
    elif not node.lookups:
        tree.forget(node.number, 0)


def _dots(
    tree: Tree, stream: OpenDirectory, start: int, encode: Encode
) -> Iterator[tuple[Item, int]]:
    here = os.fstat(stream.fd)
    if start == 0:
        number = stream.node.shown
        yield Item(b".", encode(Entry(number, number, here))), 1
    number = (stream.node.parent or stream.node).shown
    yield Item(b"..", encode(Entry(number, number, here))), _DOTS


def _list_control(tree: Tree, start: int, encode: Encode) -> Iterator[tuple[Item, int]]:
    here = tree.control.stat(tree.control.number)
    entries = [(b".", tree.control.number), (b"..", tree.control.number), *tree.control.files()]
    for at in range(start, len(entries)):
        name, number = entries[at]
        found = here if at < _DOTS else tree.control.stat(number)
        yield Item(name, encode(Entry(number, number, found))), at + 1


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
    node = tree.inodes.get(number)
    if node is None:
        if tree.control.owns(number):
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
        raise stale("unknown inode number")
    for file in tree.handles.files_of(node):
        # The kernel asks for security.capability before it writes to a file: answer with one call.
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
