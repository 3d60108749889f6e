"""Find the git directory of a working tree, and keep it open.

`.git` is a directory, or a file `gitdir: PATH` (worktrees, submodules: gitrepository-layout(5)), or absent. A linked
worktree's directory names the shared one in `commondir`. Both are held as descriptors opened before any mount, so that
they stay reachable when the mount covers the tree.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from leasefs.vcs.beneath import NotRegular, TooLarge, read_file
from leasefs.vcs.errors import BadGitFile

if TYPE_CHECKING:
    from types import TracebackType

_POINTER_LIMIT_BYTES = 8192
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class GitDir:
    """An open git directory. `fd` is this worktree's own, `common_fd` the clone's (often the same directory).

    `inside_tree` says that `.git` is itself a directory of the tree. A `.git` file that leads to another place in the
    same tree does not count: that place stays under leases, or any directory could be declared free.
    """

    fd: int
    common_fd: int
    inside_tree: bool

    def owns(self, path: bytes) -> bool:
        """Whether the tree's `path` is `.git` or lies below it (as a file it is git's too)."""
        return path == b".git" or path.startswith(b".git/")

    @property
    def git_path(self) -> str:
        """A path of the directory for a child that inherits `fd`; it never leads through a mount above the tree."""
        return f"/proc/self/fd/{self.fd}"

    @property
    def common_path(self) -> str:
        """Like `git_path`, for the common directory."""
        return f"/proc/self/fd/{self.common_fd}"

    def of_clone(self) -> GitDir:
        """The common directory as a git directory by itself, on this one's descriptor; not to be closed.

        For what concerns no single worktree. In one, git finds the refs by the real path of the common directory
        (get_common_dir_noenv()), which a mount may cover.
        """
        return GitDir(self.common_fd, self.common_fd, self.inside_tree)

    def common_real_path(self) -> bytes:
        """The absolute path at which the common directory was opened (proc(5)); equal for all worktrees of a clone."""
        return os.readlink(f"/proc/self/fd/{self.common_fd}".encode())

    def close(self) -> None:
        """Close both descriptors."""
        os.close(self.fd)
        os.close(self.common_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Around:
    """A working tree by its descriptor, and the absolute paths at which it, or a mount of it, is seen."""

    root_fd: int
    seen_at: tuple[bytes, ...]

    def beneath(self, target: bytes) -> bytes | None:
        """`target` relative to the tree's root if it leads into the tree."""
        for path in self.seen_at:
            below = os.path.relpath(target, path) if target.startswith(b"/") else b".."
            if below != b".." and not below.startswith(b"../"):
                return below
        return None


def find_git(root_fd: int, around: Around | None = None) -> GitDir | None:
    """Open the git directory of the tree at `root_fd`; None if there is no `.git`.

    Only the root itself is looked at, never its parents. The caller closes the result. A `.git` file that leads to a
    place in the tree `around` is followed there by descriptor: a mount may cover the path, and `..` leads into a mount,
    too (follow_dotdot() in fs/namei.c).

    Raises:
        BadGitFile: `.git` is a symbolic link, malformed, or leads to something that is not a git directory.
    """
    try:
        mode = os.stat(b".git", dir_fd=root_fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadGitFile(f".git cannot be examined: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        return _with_common(_open(b".git", root_fd, os.O_NOFOLLOW), inside_tree=True)
    if stat.S_ISREG(mode):
        target = _pointer(root_fd, b".git", b"gitdir: ")
        below = around.beneath(_absolute(target, root_fd)) if around else None
        if around and below is not None:
            return _with_common(_open(below, around.root_fd), inside_tree=False)
        return _with_common(_open(target, root_fd), inside_tree=False)
    raise BadGitFile(
        ".git is neither a directory nor a regular file (symbolic links are not followed)"
    )


def git_at(root: str) -> GitDir | None:
    """As `find_git`, of the tree at this path. Raises OSError, if that cannot be opened, besides."""
    root_fd = os.open(root, _OPEN)
    try:
        return find_git(root_fd)
    finally:
        os.close(root_fd)


def _absolute(target: bytes, directory_fd: int) -> bytes:
    """`target`, which may be relative to the open directory, as an absolute path."""
    return os.path.join(os.readlink(f"/proc/self/fd/{directory_fd}".encode()), target)


def _with_common(git_fd: int, *, inside_tree: bool) -> GitDir:
    try:
        common_fd = _open_common(git_fd)
    except BaseException:
        os.close(git_fd)
        raise
    gitdir = GitDir(git_fd, common_fd, inside_tree)
    try:
        _check(gitdir)
    except BadGitFile:
        gitdir.close()
        raise
    return gitdir


def _open_common(git_fd: int) -> int:
    try:
        os.stat(b"commondir", dir_fd=git_fd, follow_symlinks=False)
    except FileNotFoundError:
        return _above_stdio(os.dup(git_fd))
    except OSError as error:
        raise BadGitFile(
            f"commondir in the git directory cannot be examined: {error.strerror}"
        ) from error
    return _open(_pointer(git_fd, b"commondir", b""), git_fd)


def _check(gitdir: GitDir) -> None:
    """What git's own is_git_directory() asks for: HEAD here, objects and refs in the common directory."""
    wanted = ((gitdir.fd, b"HEAD"), (gitdir.common_fd, b"objects"), (gitdir.common_fd, b"refs"))
    for directory_fd, name in wanted:
        try:
            mode = os.stat(name, dir_fd=directory_fd, follow_symlinks=name != b"HEAD").st_mode
        except OSError as error:
            raise BadGitFile(
                f".git does not lead to a git directory: no {name.decode()}"
            ) from error
        if stat.S_ISDIR(mode) != (name != b"HEAD"):
            raise BadGitFile(
                f".git does not lead to a git directory: {name.decode()} is of the wrong kind"
            )


def _pointer(directory_fd: int, name: bytes, prefix: bytes) -> bytes:
    """The path that a `.git` file or `commondir` names."""
    shown = name.decode()
    try:
        text = read_file(directory_fd, name, _POINTER_LIMIT_BYTES)
    except TooLarge as error:
        raise BadGitFile(
            f"{shown} is longer than the {_POINTER_LIMIT_BYTES} bytes a path needs"
        ) from error
    except NotRegular as error:
        raise BadGitFile(f"{shown} is not a regular file") from error
    except OSError as error:
        raise BadGitFile(f"{shown} cannot be read: {error.strerror}") from error
    target = text.removeprefix(prefix).rstrip(b"\r\n")
    if not text.startswith(prefix) or not target or b"\0" in target or b"\n" in target:
        raise BadGitFile(f"{shown} does not name a directory")
    return target


def _open(target: bytes, base_fd: int, extra: int = 0) -> int:
    try:
        return _above_stdio(os.open(target, _OPEN | extra, dir_fd=base_fd))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadGitFile(".git leads through a loop of symbolic links") from error
        shown = os.fsdecode(target[:200])
        raise BadGitFile(
            f".git leads to {shown!r}, which cannot be opened as a directory: {error.strerror}"
        ) from error


def _above_stdio(fd: int) -> int:
    """Move a descriptor past 0..2: a child's standard streams would hide it there."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)
