"""Operations that make or take names: mknod, mkdir, symlink, link, unlink, rmdir."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from leasefs.core.policy import Allowed, Op, Target
from leasefs.mount.lower import stale
from leasefs.mount.orphans import keep_while

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.inodes import Node
    from leasefs.mount.shapes import Caller
    from leasefs.mount.tree import Entry, Tree

_SPECIAL = stat.S_IFBLK, stat.S_IFCHR
_NEVER_SAVED = *_SPECIAL, stat.S_IFIFO, stat.S_IFSOCK
# Looked up in its class, a member takes Python 3.11 longer than all that is done with it (`policy.Op`).
_MKDIR = Op.MKDIR
_UNLINK = Op.UNLINK
_RMDIR = Op.RMDIR


def mknod(
    tree: Tree, parent_number: int, name: bytes, mode: int, device: int, caller: Caller
) -> Entry:
    """Make a FIFO, a socket, a device or an empty file. None of them is ever opened here."""
    number = device if stat.S_IFMT(mode) in _SPECIAL else 0
    made = stat.S_IFMT(mode) | tree.owner.mode_for(caller, mode)
    return _make(
        tree,
        Op.MKNOD,
        (parent_number, name),
        lambda parent_fd: os.mknod(name, made, number, dir_fd=parent_fd),
        caller,
        kind=stat.S_IFMT(mode) or stat.S_IFREG,
    )


def mkdir(tree: Tree, parent_number: int, name: bytes, mode: int, caller: Caller) -> Entry:
    """Make a directory."""
    return _make(
        tree,
        _MKDIR,
        (parent_number, name),
        lambda parent_fd: os.mkdir(name, stat.S_IMODE(mode), dir_fd=parent_fd),
        caller,
        kind=stat.S_IFDIR,
    )


def symlink(tree: Tree, parent_number: int, name: bytes, target: bytes, caller: Caller) -> Entry:
    """Make a symlink. Its text is kept as it is; the kernel follows it, never the daemon."""
    return _make(
        tree,
        Op.SYMLINK,
        (parent_number, name),
        lambda parent_fd: os.symlink(target, name, dir_fd=parent_fd),
        caller,
        kind=stat.S_IFLNK,
    )


def _make(
    tree: Tree,
    op: Op,
    place: tuple[int, bytes],
    call: Callable[[int], None],
    caller: Caller,
    *,
    kind: int,
) -> Entry:
    parent, name = tree.directory(*place, op, caller.pid), place[1]
    target = tree.target(parent, name, tree.look(parent, name), is_dir=op is _MKDIR)
    # What an atomic save leaves behind is a file or a symlink, nothing else.
    target.tracked = kind in _NEVER_SAVED
    allowed = tree.gate.admit(op, (target,), caller.pid)
    parent_fd = tree.lower.directory(parent)
    ours = os.umask(caller.umask)
    try:
        call(parent_fd)
    finally:
        os.umask(ours)
    try:
        tree.owner.adopt_name(name, parent_fd, caller)
    except BaseException:
        # A quota of the caller's, for one: what failed leaves nothing behind.
        (os.rmdir if op is _MKDIR else os.unlink)(name, dir_fd=parent_fd)
        raise
    tree.changed(allowed, target.path)
    if op is _MKDIR:
        tree.changes.directory_changed(target.path)
    return _made(tree, allowed, target, (parent, name), kind)


def _made(
    tree: Tree, allowed: Allowed, target: Target, place: tuple[Node, bytes], kind: int
) -> Entry:
    """Raises ESTALE if somebody beneath took or replaced it at once: the kernel then tries again.

    Told of something of another kind the kernel would say EIO (create_new_entry, fs/fuse/dir.c).
    """
    found = tree.look(*place)
    if found is None or stat.S_IFMT(found.st_mode) != kind:
        raise stale("what was made is gone again")
    tree.arrived(allowed, target, found)
    return tree.told(tree.new_node(*place, found), found)


def link(tree: Tree, number: int, parent_number: int, name: bytes, caller: Caller) -> Entry:
    """Give a file one more name. All its names need a lease, the new one included."""
    node = tree.subject(number, Op.LINK, caller.pid)
    parent = tree.directory(parent_number, name, Op.LINK, caller.pid)
    source = tree.content_target(node, tree.stat(node))
    target = tree.target(parent, name, tree.look(parent, name))
    allowed = tree.gate.admit(Op.LINK, (*source, target), caller.pid)
    if node.parent is None:
        # linkat(2) makes no name for a file that has none.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    os.link(
        node.name,
        name,
        src_dir_fd=tree.lower.directory(node.parent),
        dst_dir_fd=tree.lower.directory(parent),
        follow_symlinks=False,
    )
    for file in tree.handles.files_of(node):
        file.aliased = True
    tree.redirects.linked(tree.inodes.path(node) or b"", target.path)
    tree.changed(allowed, target.path)
    return _made(tree, allowed, target, (parent, name), node.kind)


def unlink(tree: Tree, parent_number: int, name: bytes, caller: Caller) -> None:
    """Take a name away. Whoever has the file open keeps it."""
    _take(tree, _UNLINK, parent_number, name, os.unlink, caller)


def rmdir(tree: Tree, parent_number: int, name: bytes, caller: Caller) -> None:
    """Remove an empty directory."""
    _take(tree, _RMDIR, parent_number, name, os.rmdir, caller)


def _take(
    tree: Tree,
    op: Op,
    parent_number: int,
    name: bytes,
    call: Callable[..., None],
    caller: Caller,
) -> None:
    parent = tree.directory(parent_number, name, op, caller.pid)
    parent_fd = tree.lower.directory(parent)
    found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    target = tree.target(parent, name, found)
    allowed = tree.gate.admit(op, (target,), caller.pid)
    take = partial(call, name, dir_fd=parent_fd)
    node = keep_while(take, tree, parent, name, found)
    tree.removed(parent, name, node)
    tree.companions.gone(target.path)
    tree.changed(allowed, target.path)
    if op is _RMDIR:
        tree.changes.directory_changed(target.path)
        tree.ground.directory_changed(target.path)
