"""The part of a tree's files that a write's claim covers, for territories that cap it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from leasefs.core.globs import parse_glob
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.tracked import load_tracked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.core.paths import RelPath
    from leasefs.vcs.worktree import WorkTree


async def share_of(tree: WorkTree, globs: Iterable[str]) -> float:
    """0 to 1, of tracked files; all of them where git cannot tell. `globs` are paths, and trees of directories."""
    trees = [glob.literal_path for glob in map(parse_glob, globs) if glob.is_tree]
    if not trees:
        return 0.0
    return await trio.to_thread.run_sync(_share_below, tree, trees)


def _share_below(tree: WorkTree, directories: list[RelPath]) -> float:
    """Blocks: asks git for its index."""
    try:
        gitdir = find_git(tree.root_fd, tree.around())
        if gitdir is None:
            return 1.0
        with gitdir:
            tracked = load_tracked(gitdir)
    except VcsError:
        return 1.0
    below = sum(map(tracked.count_below, directories))
    return min(1.0, below / len(tracked)) if len(tracked) else 0.0
