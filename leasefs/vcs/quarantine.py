"""Write objects apart from a repository's own until all of them are there, as git does for what is pushed to it.

The name is one of git's own kind (tmp-objdir.c), so that `git prune` removes what a crash left. In a repository of
another user, root acts on the file system as that user: a link that they put in the way leads nowhere they could not go.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from leasefs.vcs.errors import RescueFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.vcs.gitdir import GitDir

_PREFIX = "tmp_objdir-leasefs-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class Quarantine:
    """A directory for new objects, below the repository's own."""

    def __init__(self, gitdir: GitDir, name: str, owner: os.stat_result) -> None:
        self.gitdir = gitdir
        self._name = name
        self.owner = owner

    @property
    def variables(self) -> dict[str, str]:
        """What makes a git child write here. It sees no objects but these: for alternates, git resolves the real path."""
        return {"GIT_OBJECT_DIRECTORY": f"{self.gitdir.common_path}/objects/{self._name}"}

    def publish(self) -> None:
        """Move everything to the repository's own objects, on disk before anything can name it.

        Raises:
            OSError: as of rename(2) and fsync(2); what was moved is reached by nothing and left to `git gc`.
        """
        with as_owner(self.owner), _opened(b"objects", self.gitdir.common_fd) as objects_fd:
            with _opened(self._name.encode(), objects_fd) as from_fd:
                names = sorted(os.listdir(from_fd))
                _flush(from_fd, names)
                for name in names:
                    _move_directory(os.fsencode(name), from_fd, objects_fd)
            os.fsync(objects_fd)


@contextmanager
def quarantine(gitdir: GitDir, owner: os.stat_result) -> Iterator[Quarantine]:
    """A new quarantine, removed at the end with all that was not published.

    Raises:
        RescueFailed: it cannot be made.
    """
    name = _PREFIX + os.urandom(8).hex()
    try:
        with as_owner(owner), _opened(b"objects", gitdir.common_fd) as objects_fd:
            os.mkdir(name, 0o700, dir_fd=objects_fd)
            # The umask may be a caller's of a mount at this moment.
            os.chmod(name, 0o700, dir_fd=objects_fd)
    except OSError as error:
        raise RescueFailed(f"the repository cannot be written: {error.strerror}") from error
    try:
        yield Quarantine(gitdir, name, owner)
    finally:
        # What cannot be removed now, `git prune` will.
        with (
            suppress(OSError),
            as_owner(owner),
            _opened(b"objects", gitdir.common_fd) as objects_fd,
        ):
            shutil.rmtree(name, dir_fd=objects_fd)


@contextmanager
def as_owner(owner: os.stat_result) -> Iterator[None]:
    """Act on the file system as `owner`, in this thread, if we are root (setfsuid(2))."""
    if os.geteuid() or not owner.st_uid:
        yield
        return
    try:
        _set_file_system_ids(owner.st_uid, owner.st_gid)
        yield
    finally:
        _set_file_system_ids(0, os.getegid())


def _set_file_system_ids(uid: int, gid: int) -> None:
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    # It tells nothing of failure; asking for the impossible tells what is in force.
    if ctypes.c_uint(_libc.setfsuid(-1)).value != uid or (
        ctypes.c_uint(_libc.setfsgid(-1)).value != gid
    ):
        raise RescueFailed(f"the system does not let us act as user {uid} of the repository")


@contextmanager
def _opened(name: bytes, directory_fd: int) -> Iterator[int]:
    fd = os.open(name, _DIRECTORY, dir_fd=directory_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def _flush(from_fd: int, names: list[str]) -> None:
    """Write everything out: all of it is set going first, so that the waits for each are short."""
    for act in (_start_writing, os.fsync):
        for name in names:
            with _opened(os.fsencode(name), from_fd) as directory_fd:
                for inner in os.listdir(directory_fd):
                    file_fd = os.open(inner, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)
                    try:
                        act(file_fd)
                    finally:
                        os.close(file_fd)


def _start_writing(file_fd: int) -> None:
    os.posix_fadvise(file_fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _move_directory(name: bytes, from_fd: int, to_fd: int) -> None:
    """Move the objects of one fan-out directory, or packs: these in an order in which git believes none too early."""
    mode = stat.S_IMODE(os.fstat(to_fd).st_mode)
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=to_fd)
        # As git does in a repository that a group shares (core.sharedRepository).
        os.chmod(name, mode, dir_fd=to_fd)
    with _opened(name, from_fd) as old_fd, _opened(name, to_fd) as new_fd:
        for inner in sorted(os.listdir(old_fd), key=lambda inner: inner.endswith(".idx")):
            if not _exists(inner, new_fd):
                os.rename(inner, inner, src_dir_fd=old_fd, dst_dir_fd=new_fd)
        os.fsync(new_fd)


def _exists(name: str, directory_fd: int) -> bool:
    try:
        os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
