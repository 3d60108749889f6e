"""rename(2) with all its flags: the operation that touches up to two trees at once."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.policy import Allowed, Op, Place, Reason, Refused, Target
from leasefs.mount.binding import rebind
from leasefs.mount.lower import RENAME_EXCHANGE, RENAME_NOREPLACE
from leasefs.mount.orphans import keep_while

if TYPE_CHECKING:
    from leasefs.mount.inodes import Node
    from leasefs.mount.shapes import Caller
    from leasefs.mount.tree import Tree

# Looked up in its class, a member takes Python 3.11 longer than all that is done with it (`policy.Op`).
_RENAME = Op.RENAME
_GIT = Place.GIT


class _End(NamedTuple):
    """One of the two names, and what is there."""

    parent: Node
    name: bytes
    found: os.stat_result | None
    target: Target
    is_dir: bool


def rename(
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
    source_parent = tree.directory(old[0], old[1], _RENAME, caller.pid)
    goal_parent = tree.directory(new[0], new[1], _RENAME, caller.pid)
    source, goal = _look(tree, source_parent, old[1], goal_parent, new[1], flags)
    for end in source.target, goal.target:
        if end.place is _GIT and tree.ground.is_git_root(end.path):
            tree.gate.refuse(Refused(Reason.BORDER, _RENAME, end.path), caller.pid)
    allowed = tree.gate.admit(_RENAME, (source.target, goal.target), caller.pid)
    move = partial(tree.lower.rename, source_parent, source.name, goal_parent, goal.name, flags)
    if goal.found is None or flags & RENAME_EXCHANGE:
        move()
    else:
        keep_while(move, tree, goal_parent, goal.name, goal.found)
    if goal.found is None or not _same_inode(tree, source, goal):
        _note_names(tree, source, goal, flags)
        _note_companions(tree, allowed, source, goal, flags)
    tree.changed(allowed, source.target.path, goal.target.path)
    if source.is_dir or goal.is_dir:
        _note_directories(tree, source.target.path, goal.target.path)


def _look(
    tree: Tree, source: Node, source_name: bytes, goal: Node, goal_name: bytes, flags: int
) -> tuple[_End, _End]:
    there, replaced = tree.lower.lstat(source, source_name), tree.look(goal, goal_name)
    is_dir = stat.S_ISDIR(there.st_mode)
    replaces_dir = replaced is not None and stat.S_ISDIR(replaced.st_mode)
    # What moves to a name that does not exist yet is judged there by what it is.
    source_dir = is_dir or (bool(flags & RENAME_EXCHANGE) and replaces_dir)
    target = tree.target(source, source_name, there, moves=True, is_dir=source_dir)
    # Where the directory lies was asked just now.
    path = target.path[: -len(source_name)] + goal_name if source is goal else None
    to_dir = replaces_dir or is_dir
    other = tree.target(goal, goal_name, replaced, moves=True, is_dir=to_dir, path=path)
    return (
        _End(source, source_name, there, target, is_dir),
        _End(goal, goal_name, replaced, other, replaces_dir),
    )


def _note_directories(tree: Tree, *paths: bytes) -> None:
    for path in paths:
        tree.changes.tree_changed(path)
        tree.ground.directory_changed(path)
    tree.redirects.moved()


def _same_inode(tree: Tree, source: _End, goal: _End) -> bool:
    # rename(2): two names of one file, nothing happens.
    if source.found is None or goal.found is None:
        return False
    return tree.inodes.key_of(source.found) == tree.inodes.key_of(goal.found)


def _note_names(tree: Tree, source: _End, goal: _End, flags: int) -> None:
    moved = tree.inodes.find(source.found) if source.found else None
    other = tree.inodes.find(goal.found) if goal.found else None
    exchanged = other is not None and flags & RENAME_EXCHANGE
    if other is not None:
        tree.inodes.lose_name(other, goal.parent, goal.name)
        other.told = None
        if not exchanged:
            tree.replaced(other)
    if moved is not None:
        tree.inodes.move(moved, source.parent, source.name, goal.parent, goal.name)
        moved.told = None
    if other is not None and exchanged:
        tree.inodes.add_name(other, source.parent, source.name)
    if exchanged:
        tree.made(source.parent, source.name)
    else:
        tree.outside.removed_here(source.parent, source.name)
        tree.names_changed(source.parent)
    tree.made(goal.parent, goal.name)
    for file in tree.handles.writers():
        if any(
            node is not None and tree.inodes.is_below(file.node, node) for node in (moved, other)
        ):
            rebind(tree, file)


def _note_companions(tree: Tree, allowed: Allowed, source: _End, goal: _End, flags: int) -> None:
    tree.companions.gone(source.target.path)
    tree.companions.gone(goal.target.path)
    if source.found is not None:
        tree.arrived(allowed, goal.target, source.found)
    if goal.found is not None and flags & RENAME_EXCHANGE:
        tree.arrived(allowed, source.target, goal.found)
