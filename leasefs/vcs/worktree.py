"""A working tree and the repositories in it: its own, those of submodules, and clones that lie inside it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import open_directory
from leasefs.vcs.errors import BadGitFile, VcsError
from leasefs.vcs.gitdir import Around, GitDir, find_git

if TYPE_CHECKING:
    from collections.abc import Iterator


class BadPath(VcsError):
    """A path that no name of a working tree can be: absolute, empty, or with NUL or dot components."""


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The tree at `root_fd`, which stays the caller's; `shown_at` are absolute paths at which a mount shows it."""

    root_fd: int
    shown_at: tuple[bytes, ...] = ()

    def around(self) -> Around:
        """The tree, for following a `.git` file that names a path in it."""
        real = os.readlink(f"/proc/self/fd/{self.root_fd}".encode())
        return Around(self.root_fd, (real, *self.shown_at))


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository of a tree: its files lie at `root_fd`; `around` is the tree that it is in."""

    root_fd: int
    gitdir: GitDir
    around: Around

    @property
    def owner(self) -> os.stat_result:
        """As whom git runs on it if we are root."""
        return os.fstat(self.gitdir.common_fd)


@contextmanager
def open_repository(root_fd: int, around: Around) -> Iterator[Repository | None]:
    """The repository of the directory at `root_fd`; None if there is none. Looked for anew each time.

    Raises:
        BadGitFile: `.git` is there and leads nowhere.
    """
    gitdir = find_git(root_fd, around)
    if gitdir is None:
        yield None
        return
    with gitdir:
        yield Repository(root_fd, gitdir, around)


@contextmanager
def open_nested(outer_fd: int, path: bytes, around: Around) -> Iterator[Repository | None]:
    """The repository at `path` below `outer_fd`; None if it is none that git would take for one."""
    try:
        root_fd = open_directory(outer_fd, path)
    except OSError:
        yield None
        return
    try:
        try:
            gitdir = find_git(root_fd, around)
        except BadGitFile:
            gitdir = None
        if gitdir is None:
            yield None
            return
        with gitdir:
            yield Repository(root_fd, gitdir, around)
    finally:
        os.close(root_fd)


class NestedRoots:
    """Which directories below `root_fd` have a `.git`; each is looked at once."""

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._known: dict[bytes, bool] = {}

    def above(self, path: bytes) -> Iterator[bytes]:
        """The directories above `path` that have a `.git`, the root itself left out, outermost first."""
        end = path.find(b"/")
        while end > 0:
            directory = path[:end]
            if directory not in self._known:
                self._known[directory] = self._look(directory)
            if self._known[directory]:
                yield directory
            end = path.find(b"/", end + 1)

    def _look(self, directory: bytes) -> bool:
        try:
            directory_fd = open_directory(self._root_fd, directory)
        except OSError:
            return False
        try:
            os.stat(b".git", dir_fd=directory_fd, follow_symlinks=False)
        except OSError:
            return False
        finally:
            os.close(directory_fd)
        return True


def check_path(path: bytes) -> None:
    """Refuse what could lead out of the tree.

    Raises:
        BadPath: `path` is not relative and normalised.
    """
    if b"\0" in path or any(part in (b"", b".", b"..") for part in path.split(b"/")):
        raise BadPath(f"{os.fsdecode(path)!r} is no path of a working tree")
