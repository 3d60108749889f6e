"""Looking through a directory that may be redirected: is it large enough, and is any file in it also elsewhere?

All of it takes long on large trees: a worker thread's job. Raises OSError where it could not look, which
is no answer at all.
"""

from __future__ import annotations

import stat
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from leasefs.mount.links import files_below

if TYPE_CHECKING:
    from collections.abc import Iterator

# Larger trees are not looked through, and so not redirected.
LARGEST = 2_000_000

Inode = tuple[int, int]


class Survey(NamedTuple):
    """`linked` are inodes with names elsewhere. `foreign` tells of another file system inside."""

    files: int
    linked: frozenset[Inode]
    foreign: bool


def holds(directory_fd: int, files: int) -> bool:
    """Whether at least that many files are below the directory."""
    return sum(1 for _ in islice(files_below(directory_fd), files)) >= files


def survey(directory_fd: int, device: int) -> Survey:
    """Everything below the directory, which should all be on `device`."""
    count, foreign = 0, False
    missing: dict[Inode, int] = {}
    for _, found in islice(files_below(directory_fd), LARGEST):
        count += 1
        foreign = foreign or found.st_dev != device
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            inode = (found.st_dev, found.st_ino)
            missing[inode] = missing.get(inode, found.st_nlink) - 1
    linked = frozenset(inode for inode, left in missing.items() if left > 0)
    return Survey(count, linked, foreign or count >= LARGEST)


def names_outside(root_fd: int, inside: bytes, inodes: frozenset[Inode]) -> Iterator[bytes]:
    """Paths of these inodes in the tree, but for those below `inside` and the git directory."""
    for path, found in files_below(root_fd, frozenset({inside, b".git"})):
        if (found.st_dev, found.st_ino) in inodes:
            yield path
