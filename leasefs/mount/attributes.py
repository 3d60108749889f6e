"""Operations that change an inode's attributes: mode, owner, size, times, extended attributes."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.policy import Op
from leasefs.mount.opening import check_handle
from leasefs.mount.owner import take_set_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.inodes import Node
    from leasefs.mount.shapes import Caller
    from leasefs.mount.tree import Entry, Tree

# Looked up in its class, a member takes Python 3.11 longer than all that is done with it (`policy.Op`).
_TRUNCATE = Op.TRUNCATE
_CHMOD = Op.CHMOD
_CHOWN = Op.CHOWN
_UTIMENS = Op.UTIMENS


@dataclass(frozen=True, slots=True)
class Change:
    """What setattr is to set; None leaves a thing as it is. Times in nanoseconds."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None

    @property
    def op(self) -> Op:
        """The operation by which it is judged and reported."""
        if self.size is not None:
            return _TRUNCATE
        if self.mode is not None:
            return _CHMOD
        if self.uid is not None or self.gid is not None:
            return _CHOWN
        return _UTIMENS


class _At(NamedTuple):
    """The very inode that is to change: a descriptor of it, and what system calls that change it are given.

    That is the descriptor itself where it is open, else a name, in `dir_fd`, that leads to it.
    """

    fd: int
    name: int | bytes
    dir_fd: int | None


# chown(2) with neither owner nor group, which sets the time of change; or the kernel before a write by
# somebody else than root, to have set-id bits taken away (file_remove_privs): chown(2) beneath does both.
_NOTHING = Change()


async def set_by_handle(
    tree: Tree, number: int, change: Change, handle: int, caller: Caller
) -> Entry:
    """Change attributes through an open file: ftruncate(2), which alone comes with its handle (fuse_setattr)."""
    node = tree.subject(number, change.op, caller.pid)
    file = tree.handles.file(handle)
    if not tree.gate.may_write(file):
        await check_handle(tree, change.op, file)
    if change.size is not None:
        tree.note(file)
    found = tree.stat(node) if node.parent else os.fstat(file.fd)
    _change(tree, node, change, _At(file.fd, file.fd, None), found, caller)
    if file.token > 0:
        tree.gate.holdings.wrote(file.token)
    return _changed(tree, node, change, tree.stat(node))


def set_attributes(tree: Tree, number: int, change: Change, caller: Caller) -> Entry:
    """Change attributes of what has this number."""
    op = change.op
    node = tree.subject(number, op, caller.pid)
    fd = _open_already(tree, node, change)
    if fd >= 0:
        return _set(tree, node, op, change, _At(fd, fd, None), tree.stat(node), caller)
    if node.is_dir:
        found, fd = tree.stat(node), tree.lower.directory(node)
        return _set(tree, node, op, change, _At(fd, *tree.lower.name_of(fd)), found, caller)
    fd, found = tree.lower.pin(node)
    try:
        return _set(tree, node, op, change, _At(fd, *tree.lower.name_of(fd)), found, caller)
    finally:
        os.close(fd)


def _set(
    tree: Tree,
    node: Node,
    op: Op,
    change: Change,
    at: _At,
    found: os.stat_result,
    caller: Caller,
) -> Entry:
    allowed = tree.gate.admit(op, tree.content_target(node, found), caller.pid)
    _change(tree, node, change, at, found, caller)
    tree.gate.wrote(allowed)
    return _changed(tree, node, change, os.fstat(at.fd))


def _open_already(tree: Tree, node: Node, change: Change) -> int:
    """A descriptor of the very inode, borrowed from an open file that can take the change; -1 if there is none."""
    for file in tree.handles.files_of(node):
        if file.writes or change.size is None:
            return file.fd
    return -1


def _change(
    tree: Tree, node: Node, change: Change, at: _At, found: os.stat_result, caller: Caller
) -> None:
    tree.outside.changed_here(node)
    if change.size is not None and change.mode is None and tree.owner.disarms(caller):
        take_set_ids(at.name, caller.pid, at.dir_fd)
    _apply(change, at, found)


def _changed(tree: Tree, node: Node, change: Change, found: os.stat_result) -> Entry:
    tree.links.touched(node, found)
    tree.wrote_own(node, found)
    _note(tree, node, change)
    return tree.told(node, found)


def _note(tree: Tree, node: Node, change: Change) -> None:
    path = tree.inodes.path(node)
    if path is None:
        return
    if change.size is not None:
        tree.ground.changed(path)
    if not node.is_dir:
        tree.changes.changed(path)
    elif (change.mode, change.uid, change.gid) != (None, None, None):
        tree.changes.tree_changed(path)


def _apply(change: Change, at: _At, found: os.stat_result) -> None:
    name, dir_fd = at.name, at.dir_fd
    if change.size is not None:
        # By descriptor, or by the path of what one leads to.
        os.truncate(name if dir_fd is None else f"/proc/self/fd/{at.fd}", change.size)
    if change.uid is not None or change.gid is not None or change == _NOTHING:
        uid = -1 if change.uid is None else change.uid
        os.chown(name, uid, -1 if change.gid is None else change.gid, dir_fd=dir_fd)
    if change.mode is not None:
        # After chown, which takes the set-id bits away.
        os.chmod(name, stat.S_IMODE(change.mode), dir_fd=dir_fd)
    if change.atime_ns is not None or change.mtime_ns is not None:
        atime_ns = found.st_atime_ns if change.atime_ns is None else change.atime_ns
        mtime_ns = found.st_mtime_ns if change.mtime_ns is None else change.mtime_ns
        os.utime(name, ns=(atime_ns, mtime_ns), dir_fd=dir_fd)


async def set_xattr(tree: Tree, number: int, name: bytes, value: bytes, caller: Caller) -> None:
    """Set an extended attribute, ACLs included."""
    await _change_xattr(
        tree, Op.SETXATTR, number, lambda path: os.setxattr(path, name, value), caller
    )


async def remove_xattr(tree: Tree, number: int, name: bytes, caller: Caller) -> None:
    """Remove an extended attribute. ENODATA if it is not set."""
    await _change_xattr(
        tree, Op.REMOVEXATTR, number, lambda path: os.removexattr(path, name), caller
    )


async def _change_xattr(
    tree: Tree, op: Op, number: int, call: Callable[[str], None], caller: Caller
) -> None:
    node = tree.subject(number, op, caller.pid)
    allowed = await tree.gate.require(
        op, caller.pid, lambda: tree.content_target(node, tree.stat(node))
    )
    with tree.lower.pinned(node) as path:
        tree.outside.changed_here(node)
        call(path)
    tree.links.touched(node, tree.stat(node))
    tree.gate.wrote(allowed)
