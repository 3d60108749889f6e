"""Operations that change an inode's attributes: mode, owner, size, times, extended attributes."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core.policy import Op
from leasefs.mount.opening import check_handle
from leasefs.mount.owner import take_set_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.inodes import Node
    from leasefs.mount.shapes import Caller
    from leasefs.mount.tree import Entry, Tree


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
            return Op.TRUNCATE
        if self.mode is not None:
            return Op.CHMOD
        if self.uid is not None or self.gid is not None:
            return Op.CHOWN
        return Op.UTIMENS


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
    _change(tree, node, change, file.fd, found, caller)
    if file.token > 0:
        tree.gate.holdings.wrote(file.token)
    return _changed(tree, node, change, tree.stat(node))


def set_attributes(tree: Tree, number: int, change: Change, caller: Caller) -> Entry:
    """Change attributes of what has this number."""
    node = tree.subject(number, change.op, caller.pid)
    found = tree.stat(node)
    targets = tree.content_target(node, found)
    allowed = tree.gate.admit(change.op, targets, caller.pid)
    fd = _open_already(tree, node, change)
    if fd >= 0:
        _change(tree, node, change, fd, found, caller)
    else:
        with tree.lower.pinned(node) as path:
            _change(tree, node, change, path, found, caller)
    tree.gate.wrote(allowed)
    return _changed(tree, node, change, tree.stat(node))


def _open_already(tree: Tree, node: Node, change: Change) -> int:
    """A descriptor of the very inode, borrowed from an open file that can take the change; -1 if there is none."""
    for file in tree.handles.files_of(node):
        if file.writes or change.size is None:
            return file.fd
    return -1


def _change(
    tree: Tree, node: Node, change: Change, at: str | int, found: os.stat_result, caller: Caller
) -> None:
    tree.outside.changed_here(node)
    if change.size is not None and change.mode is None and tree.owner.disarms(caller):
        take_set_ids(at, caller.pid)
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


def _apply(change: Change, at: str | int, found: os.stat_result) -> None:
    if change.size is not None:
        os.truncate(at, change.size)
    if change.uid is not None or change.gid is not None or change == _NOTHING:
        uid = -1 if change.uid is None else change.uid
        os.chown(at, uid, -1 if change.gid is None else change.gid)
    if change.mode is not None:
        # After chown, which takes the set-id bits away.
        os.chmod(at, stat.S_IMODE(change.mode))
    if change.atime_ns is not None or change.mtime_ns is not None:
        atime_ns = found.st_atime_ns if change.atime_ns is None else change.atime_ns
        mtime_ns = found.st_mtime_ns if change.mtime_ns is None else change.mtime_ns
        os.utime(at, ns=(atime_ns, mtime_ns))


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
