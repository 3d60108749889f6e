"""rename(2) with all its flags: the operation that touches up to two trees at once."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core import paths
from leasefs.core.policy import Op, Place, Reason, Refused, Target
from leasefs.mount.lower import RENAME_EXCHANGE, RENAME_NOREPLACE
from leasefs.mount.orphans import orphaning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.mount.inodes import Node
    from leasefs.mount.shapes import Caller
    from leasefs.mount.tree import Tree


_UNKNOWN = Target(b"")


@dataclass(slots=True)
class _End:
    """One of the two names, as last looked at."""

    parent: Node
    name: bytes
    found: os.stat_result | None = None
    target: Target = _UNKNOWN

    @property
    def path(self) -> bytes:
        return self.target.path

    @property
    def is_dir(self) -> bool:
        return self.found is not None and stat.S_ISDIR(self.found.st_mode)


async def rename(
    tree: Tree,
    old: tuple[int, bytes],
    new: tuple[int, bytes],
    flags: int,
    caller: Caller,
) -> None:
    """Move `old` (parent number, name) to `new`, or exchange the two.

    Both names change, and so does everything below a directory. EINVAL for flags that a mount has no
    use for (RENAME_WHITEOUT).
    """
    if flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    source = _End(tree.directory(*old, Op.RENAME, caller.pid), old[1])
    goal = _End(tree.directory(*new, Op.RENAME, caller.pid), new[1])
    allowed = await tree.gate.require(
        Op.RENAME, caller.pid, lambda: _describe(tree, source, goal, flags, caller)
    )
    replaced = goal.found if not flags & RENAME_EXCHANGE else None
    keeping = (
        orphaning(tree, goal.parent, goal.name, replaced) if replaced is not None else nullcontext()
    )
    with keeping:
        tree.lower.rename(source.parent, source.name, goal.parent, goal.name, flags)
    if not _same_inode(tree, source, goal):
        _note_names(tree, source, goal, flags)
        _note_companions(tree, source, goal, flags)
    tree.changed(allowed, source.path, goal.path)
    if source.is_dir or goal.is_dir:
        tree.changes.tree_changed(source.path)
        tree.changes.tree_changed(goal.path)
        tree.ground.directory_changed(source.path)
        tree.ground.directory_changed(goal.path)
        tree.redirects.moved()


def _describe(tree: Tree, source: _End, goal: _End, flags: int, caller: Caller) -> Sequence[Target]:
    source.found = tree.lower.lstat(source.parent, source.name)
    goal.found = tree.look(goal.parent, goal.name)
    # What moves to a name that does not exist yet is judged there by what it is.
    goal_dir = goal.is_dir or source.is_dir
    source_dir = source.is_dir or (bool(flags & RENAME_EXCHANGE) and goal.is_dir)
    source.target = tree.target(
        source.parent, source.name, source.found, moves=True, is_dir=source_dir
    )
    beside = source.parent is goal.parent
    path = paths.join(paths.parent(source.path), goal.name) if beside else None
    goal.target = tree.target(
        goal.parent, goal.name, goal.found, moves=True, is_dir=goal_dir, path=path
    )
    ends = source.target, goal.target
    for end in ends:
        if end.place is Place.GIT and tree.ground.is_git_root(end.path):
            tree.gate.refuse(Refused(Reason.BORDER, Op.RENAME, end.path), caller.pid)
    return ends


def _same_inode(tree: Tree, source: _End, goal: _End) -> bool:
    # rename(2): two names of one file, nothing happens.
    if source.found is None or goal.found is None:
        return False
    return tree.inodes.key_of(source.found) == tree.inodes.key_of(goal.found)


def _note_names(tree: Tree, source: _End, goal: _End, flags: int) -> None:
    moved = tree.inodes.find(source.found) if source.found else None
    other = tree.inodes.find(goal.found) if goal.found else None
    at_source, at_goal = (source.parent, source.name), (goal.parent, goal.name)
    exchanged = other is not None and flags & RENAME_EXCHANGE
    if other is not None:
        tree.inodes.lose_name(other, *at_goal)
        other.told = None
        if not exchanged:
            tree.replaced(other)
    if moved is not None:
        tree.inodes.move(moved, at_source, at_goal)
        moved.told = None
    if other is not None and exchanged:
        tree.inodes.add_name(other, *at_source)
    if exchanged:
        tree.made(*at_source)
    else:
        tree.outside.removed_here(*at_source)
        tree.names_changed(source.parent)
    tree.made(*at_goal)
    for file in tree.handles.writers():
        if any(
            node is not None and tree.inodes.is_below(file.node, node) for node in (moved, other)
        ):
            tree.rebind(file)


def _note_companions(tree: Tree, source: _End, goal: _End, flags: int) -> None:
    tree.companions.gone(source.path)
    tree.companions.gone(goal.path)
    if source.found is not None:
        tree.arrived(goal.target, source.found)
    if goal.found is not None and flags & RENAME_EXCHANGE:
        tree.arrived(source.target, goal.found)
