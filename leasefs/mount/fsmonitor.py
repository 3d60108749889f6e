"""What the log of changes needs from the tree beneath: directories, those below a moved one or all there are."""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import open_directory

if TYPE_CHECKING:
    from collections.abc import Callable

# The mount's loop stands still while those of a moved directory are looked at, some 20 us each.
MOST_MOVED = 1000
# All of a tree are looked at in a thread; git takes as long for each again.
MOST_IN_TREE = 50_000

_NO_DIRECTORY = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def finder(root_fd: int) -> Callable[[bytes], list[bytes] | None]:
    """For `ChangeLog`: finds the directories below a path of the tree at `root_fd`."""
    return partial(directories_below, root_fd)


def finder_of_all(root_fd: int) -> Callable[[], list[bytes] | None]:
    """For `ControlDir`: finds all directories of the tree at `root_fd`, from any thread."""
    return partial(directories_below, root_fd, b"", most=MOST_IN_TREE)


def directories_below(root_fd: int, path: bytes, *, most: int = MOST_MOVED) -> list[bytes] | None:
    """All directories below `path`, itself not included; [] if it is no directory (any more).

    None if there are more than `most`, or if one cannot be read: nobody can tell then. Git directories
    are left out, because git does not look for files there.
    """
    found: list[bytes] = []
    waiting = [path]
    while waiting:
        here = waiting.pop()
        try:
            names = _directories_in(root_fd, here)
        except OSError as error:
            if error.errno in _NO_DIRECTORY:
                continue
            return None
        paths = [here + b"/" + name if here else name for name in names]
        found += paths
        waiting += paths
        if len(found) > most:
            return None
    return found


def _directories_in(root_fd: int, path: bytes) -> list[bytes]:
    step_fd = open_directory(root_fd, path)
    try:
        listing_fd = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=step_fd)
    finally:
        os.close(step_fd)
    try:
        with os.scandir(listing_fd) as entries:
            names = [
                os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)
            ]
    finally:
        os.close(listing_fd)
    return [name for name in names if name != b".git"]
