"""What loses its last name through the mount stays reachable.

Local file systems keep an unlinked inode for whoever has it open or is just opening it; so does the
mount, through a descriptor, until the kernel forgets the node.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from leasefs.mount.lower import NO_MORE

_PIN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.inodes import Node
    from leasefs.mount.tree import Tree


def keep_while(
    take: Callable[[], None], tree: Tree, parent: Node, name: bytes, found: os.stat_result
) -> Node | None:
    """Call `take`, which takes the name of what was `found` there; returns the node of that, if there is one."""
    node = tree.inodes.find(found)
    last = found.st_nlink == 1 or stat.S_ISDIR(found.st_mode)
    if node is None or not last or node.orphan_fd >= 0:
        take()
        return node
    fd = _pinned(tree, parent, name, node)
    try:
        take()
    except BaseException:
        if fd >= 0:
            os.close(fd)
        raise
    node.orphan_fd = fd
    return node


def _pinned(tree: Tree, parent: Node, name: bytes, node: Node) -> int:
    """A descriptor of the node, or -1: by now somebody beneath may have put something else at its name.

    The kernel would be told of that under the node's number, and answer EIO where it is of another kind.
    """
    try:
        fd = os.open(name, _PIN, dir_fd=tree.lower.directory(parent))
        fd = tree.lower.for_a_handle(fd)
    except OSError as error:
        if error.errno in NO_MORE:
            return -1  # whoever has it open goes on by that; removing is what helps most now
        raise
    if tree.inodes.is_same(node, os.fstat(fd)):
        return fd
    os.close(fd)
    return -1
