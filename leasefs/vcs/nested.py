"""Repositories inside a working tree that some of its paths belong to: submodules, clones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.vcs.at_head import by_nested
from leasefs.vcs.worktree import open_nested

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.vcs.gitdir import Around
    from leasefs.vcs.worktree import WorkTree


def nested_repositories(tree: WorkTree, paths: Iterable[bytes]) -> set[bytes]:
    """The directories of the repositories inside the tree that paths lie in, at any depth. Runs no git.

    Raises:
        BadGitFile: the tree's `.git` leads nowhere.
    """
    return set(_nested(tree.root_fd, tree.around(), list(paths)))


def _nested(root_fd: int, around: Around, paths: list[bytes]) -> Iterator[bytes]:
    _, inner = by_nested(root_fd, None, paths)
    for directory, below in inner.items():
        with open_nested(root_fd, directory, around) as nested:
            if nested is None:
                continue
            yield directory
            cut = len(directory) + 1
            for deeper in _nested(nested.root_fd, around, [path[cut:] for path in below]):
                yield directory + b"/" + deeper
