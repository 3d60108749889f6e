"""The files of a territory as a plan counts them: what git tracks, how large it is, how often it changed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.partition_walk import share
from leasefs.vcs.own_git import own_git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.core.globs import Glob

# git's exit status where there is no repository, and for a HEAD that no commit was made on yet.
_NOTHING_THERE = 128
_LOG_TIMEOUT_S = 120.0


class History(NamedTuple):
    """In how many of the newest `commits` each path was changed; merges are not looked at."""

    changes: dict[bytes, int]
    commits: int


def tracked_paths(root: str) -> list[bytes]:
    """The paths that git tracks in the tree at `root`, in byte order; of a tree that is not git's, all of its files.

    Raises:
        GitFailed: the index cannot be read.
    """
    if not _is_gits(root):
        return sorted(_walked(root))
    return sorted(set(own_git(["ls-files", "-z"], directory=root).split(b"\0")[:-1]))


def share_of(root: str, globs: Sequence[Glob]) -> float:
    """The part of the tracked files of the tree at `root` that one of `globs` matches: 0 to 1, 0 if none is tracked.

    For `ClaimLease.share`. Raises as `tracked_paths`.
    """
    return share(globs, tracked_paths(root))


def sizes(root: str, paths: Sequence[bytes]) -> list[int]:
    """The size of each in bytes; 0 for what is not there or is no file."""
    found = []
    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in paths:
            try:
                status = os.lstat(path, dir_fd=root_fd)
            except OSError:
                found.append(0)
            else:
                found.append(status.st_size if stat.S_ISREG(status.st_mode) else 0)
    finally:
        os.close(root_fd)
    return found


def history(root: str, most: int) -> History:
    """How often paths of the tree at `root` changed in the newest `most` commits of HEAD.

    Raises:
        GitFailed: git cannot tell, or not within two minutes.
    """
    if not most or not _is_gits(root):
        return History({}, 0)
    asked = ["rev-list", "--no-merges", f"--max-count={most}", "HEAD", "--"]
    commits = own_git(asked, directory=root, absent_status=_NOTHING_THERE, timeout_s=_LOG_TIMEOUT_S)
    if not commits:
        return History({}, 0)
    options = ["--stdin", "-r", "-z", "--root", "--relative", "--no-renames", "--name-only"]
    names = own_git(
        ["diff-tree", "--no-commit-id", *options],
        directory=root,
        stdin=commits,
        timeout_s=_LOG_TIMEOUT_S,
    )
    changes: dict[bytes, int] = {}
    for path in names.split(b"\0")[:-1]:
        changes[path] = changes.get(path, 0) + 1
    return History(changes, commits.count(b"\n"))


def _is_gits(root: str) -> bool:
    if os.path.lexists(os.path.join(root, ".git")):
        return True
    asked = ["rev-parse", "--is-inside-work-tree"]
    return own_git(asked, directory=root, absent_status=_NOTHING_THERE).strip() == b"true"


def _walked(root: str) -> list[bytes]:
    found: list[bytes] = []
    top = os.fsencode(root)
    for directory, directories, names in os.walk(top):
        links = [name for name in directories if os.path.islink(os.path.join(directory, name))]
        found += (os.path.relpath(os.path.join(directory, one), top) for one in (*names, *links))
    return found
