"""A repository as its HEAD commit has it, and which paths belong to repositories inside it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.objects import TREE, Entry, Objects
from leasefs.vcs.worktree import NestedRoots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.vcs.worktree import Repository


@dataclass(frozen=True, slots=True)
class AtHead:
    """A repository, its objects, and the commit that HEAD named when it was asked: "" if none yet."""

    repository: Repository
    objects: Objects
    commit: str

    def entry(self, path: bytes) -> Entry | None:
        """What HEAD has at `path`; GitFailed if a tree is missing."""
        return self.objects.entry(self.commit, path) if self.commit else None


@contextmanager
def at_head(repository: Repository) -> Iterator[AtHead]:
    """Ask a repository for its HEAD once; GitFailed if git cannot be run."""
    with Objects(repository.gitdir, repository.owner) as objects:
        yield AtHead(repository, objects, objects.commit("HEAD"))


def by_nested(
    root_fd: int, at: AtHead | None, paths: Iterable[bytes], *, themselves: bool = False
) -> tuple[list[bytes], dict[bytes, list[bytes]]]:
    """The paths that are the repository's own, and those of each directory in it that may be a repository itself.

    `themselves`: a path may be such a directory. What HEAD has files in is the outer repository's, as for git.
    """
    nested = NestedRoots(root_fd)
    own: list[bytes] = []
    inner: dict[bytes, list[bytes]] = {}
    for path in paths:
        for directory in nested.above(path + b"/" if themselves and path else path):
            entry = at.entry(directory) if at else None
            if entry is None or entry.mode != TREE:
                inner.setdefault(directory, []).append(path)
                break
        else:
            own.append(path)
    return own, inner
