"""Who owns what is created.

A mount made by root serves many users: what they create belongs to them, as it would on the plain
directory (inode_init_owner in fs/inode.c). A mount made by an ordinary user creates as that user,
whoever asks: chown(2) is root's. What others make there must not run as that user, so it gets no set-id bits.

The caller's umask is set around each creating call, with nothing awaited in between, and nowhere else: the
lower file system then applies it, or leaves it aside where a default ACL says so, exactly once.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.client.process import status_fields

if TYPE_CHECKING:
    from leasefs.mount.shapes import Caller


def take_set_ids(at: int | bytes, pid: int, dir_fd: int | None = None) -> bool:
    """Take a file's set-id bits away, by descriptor or name, for a change by `pid`; whether it had any.

    The rule is setattr_should_drop_suidgid in fs/attr.c: where the group may not execute the file, the
    set-group bit stays for members of the group.
    """
    found = os.stat(at, dir_fd=dir_fd)
    mode = stat.S_IMODE(found.st_mode)
    armed = mode & stat.S_ISUID
    if mode & stat.S_ISGID and (mode & stat.S_IXGRP or found.st_gid not in _groups_of(pid)):
        armed |= stat.S_ISGID
    if armed:
        os.chmod(at, mode & ~armed, dir_fd=dir_fd)
    return bool(armed)


def _groups_of(pid: int) -> frozenset[int]:
    """The groups of a process (proc(5)); none if it is gone or out of sight."""
    try:
        told = status_fields(pid, "Gid", "Groups")
    except OSError:
        return frozenset()
    # Real, effective, saved, and that for file systems, which is the one that counts.
    return frozenset(map(int, [told["Gid"].split()[3], *told["Groups"].split()]))


@dataclass(frozen=True, slots=True)
class Owner:
    """Gives new objects to their creator, where it may: `for_others` is set for a mount made by root."""

    for_others: bool

    def mode_for(self, caller: Caller, mode: int) -> int:
        """The permission bits of what the caller creates with this mode."""
        bits = stat.S_IMODE(mode)
        if self.for_others or caller.uid == os.geteuid():
            return bits
        return bits & ~(stat.S_ISUID | stat.S_ISGID)

    def disarms(self, caller: Caller) -> bool:
        """Whether what the caller writes loses its set-id bits; with FUSE_HANDLE_KILLPRIV_V2 that is our task.

        For a daemon that is an ordinary user the file system beneath does it.
        """
        return self.for_others and caller.uid != 0

    def adopt_file(self, fd: int, parent_fd: int, caller: Caller) -> os.stat_result:
        """Give a file just created through `fd` to the caller; returns its attributes."""
        found = os.fstat(fd)
        if not self.for_others or (found.st_uid, found.st_gid) == (caller.uid, caller.gid):
            return found
        uid, gid = self._ids(found, parent_fd, caller)
        if (uid, gid) == (found.st_uid, found.st_gid):
            return found
        os.fchown(fd, uid, gid)
        if found.st_mode & (stat.S_ISUID | stat.S_ISGID):  # chown(2) took them away
            os.fchmod(fd, stat.S_IMODE(found.st_mode))
        return os.fstat(fd)

    def adopt_name(self, name: bytes, parent_fd: int, caller: Caller) -> None:
        """Give what was just created at `name` (not followed) to the caller."""
        if not self.for_others:
            return
        found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        if (found.st_uid, found.st_gid) == (caller.uid, caller.gid):
            return
        uid, gid = self._ids(found, parent_fd, caller)
        if (uid, gid) == (found.st_uid, found.st_gid):
            return
        os.chown(name, uid, gid, dir_fd=parent_fd, follow_symlinks=False)
        if found.st_mode & (stat.S_ISUID | stat.S_ISGID):  # chown(2) took them away
            _chmod(name, parent_fd, found)

    def _ids(self, found: os.stat_result, parent_fd: int, caller: Caller) -> tuple[int, int]:
        inherits = os.fstat(parent_fd).st_mode & stat.S_ISGID
        return caller.uid, found.st_gid if inherits else caller.gid


def _chmod(name: bytes, parent_fd: int, made: os.stat_result) -> None:
    """Give what was made the mode it was made with; it may be a FIFO, which is not to be opened."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        if os.fstat(fd).st_ino == made.st_ino:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(made.st_mode))
    finally:
        os.close(fd)
