"""Paths that were work when they were made, and that the tree's own rules have made scratch since."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.vcs.at_head import by_nested
from leasefs.vcs.plumbing import run_git
from leasefs.vcs.worktree import WorkTree, open_repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Of names in one command line.
_BYTES = 64_000
_LISTING = ("ls-files", "-o", "-i", "--exclude-per-directory=.gitignore", "-z", "--")


def now_ignored(tree: WorkTree, paths: Iterable[bytes]) -> set[bytes]:
    """Those of `paths` that git does not track and a `.gitignore` of the tree covers. Blocks.

    Rules that need no lease to be written (`.git/info/exclude`, git's configuration) do not count, and neither do
    paths in repositories inside the tree.

    Raises:
        VcsError: git cannot be asked, or `.git` leads nowhere.
    """
    asked = list(paths)
    if not asked:
        return set()
    with open_repository(tree.root_fd, tree.around()) as repository:
        if repository is None:
            return set()
        found: set[bytes] = set()
        own, _ = by_nested(tree.root_fd, None, asked)
        for names in _batches(own):
            listed = run_git(
                repository.gitdir,
                ["--literal-pathspecs", *_LISTING, *names],
                owner=repository.owner,
                tree_fd=repository.root_fd,
            )
            found.update(listed.split(b"\0")[:-1])
        return found.intersection(own)


def _batches(paths: Iterable[bytes]) -> Iterator[list[str]]:
    batch: list[str] = []
    room = _BYTES
    for path in paths:
        if batch and room < len(path):
            yield batch
            batch, room = [], _BYTES
        batch.append(os.fsdecode(path))
        room -= len(path)
    if batch:
        yield batch
