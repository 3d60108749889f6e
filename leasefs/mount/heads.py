"""What HEAD names where a path lies, for the first change of each path: asked once, until git does something."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.vcs.errors import VcsError

if TYPE_CHECKING:
    from leasefs.vcs.worktree import WorkTree

_GITS_OWN = b"/.git/"


class Heads:
    """By directory. One without a `.git` of its own lies in the repository of the one above."""

    def __init__(self, tree: WorkTree) -> None:
        """None of the tree's repositories is read yet."""
        self._tree = tree
        self._heads: dict[bytes, str | None] = {}

    def forget(self) -> None:
        """Git did something."""
        self._heads.clear()

    def of(self, path: bytes) -> str | None:
        """The commit, "" if there is none, None if that cannot be told. A directory's path may end in a slash."""
        if _GITS_OWN in path:
            return ""  # what git keeps of a repository inside the tree is in no commit, whatever HEAD names
        return self._in(path.rstrip(b"/").rpartition(b"/")[0])

    def _in(self, directory: bytes) -> str | None:
        below = []
        while directory and directory not in self._heads and not self._may_be_repository(directory):
            below.append(directory)
            directory = directory.rpartition(b"/")[0]
        if directory not in self._heads:
            self._heads[directory] = head_in(self._tree, directory)
        head = self._heads[directory]
        self._heads.update(dict.fromkeys(below, head))
        return head

    def _may_be_repository(self, directory: bytes) -> bool:
        try:
            os.stat(directory + b"/.git", dir_fd=self._tree.root_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError:
            pass  # whoever reads it will say so
        return True


def head_in(tree: WorkTree, directory: bytes) -> str | None:
    """What HEAD names for what lies in a directory, "" if nothing, None if that cannot be told. Blocks; runs no git."""
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.reconcile import heads_of

    path = directory + b"/file" if directory else b"file"
    try:
        return heads_of(tree, [path])[path]
    except (VcsError, OSError):
        return None  # then only what is committed from now on can be told from what was there
