"""Which directories' locks the kernel holds until a request is answered.

It takes that of each directory in which a name is made, removed or given up, and of a directory that goes or moves itself
(`vfs_create` and its like, fs/namei.c; docs: Documentation/filesystems/directory-locking.rst).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.mount.tree import Tree

# Where in a handler's arguments a directory stands, each time with a name after it.
_PLACES = {
    "create": (0,),
    "mknod": (0,),
    "mkdir": (0,),
    "symlink": (0,),
    "link": (1,),
    "unlink": (0,),
    "rmdir": (0,),
    "rename": (0, 2),
}


def locked_directories(tree: Tree, operation: str, arguments: Sequence[object]) -> set[int]:
    """Their numbers, as far as they are known here. Looks at the tree beneath."""
    found: set[int] = set()
    for place in _PLACES.get(operation, ()):
        number, name = cast("tuple[int, bytes]", tuple(arguments[place : place + 2]))
        found.add(number)
        try:
            there = tree.look(tree.node(number), name)
        except OSError:
            continue  # the handler says why
        node = None if there is None else tree.inodes.find(there)
        if node is not None and node.is_dir:
            found.add(node.number)
    return found
