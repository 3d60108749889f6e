"""Putting a directory of the lower tree natively over its counterpart in the mount.

Both ends are descriptors, so no path is resolved while it happens: the source was opened below the
tree's root one component at a time, the target below the mount's root, out of the kernel's caches only
(RESOLVE_CACHED, openat2(2)). The daemon therefore never sends itself a request, which it could not
answer if it died meanwhile. Linux 5.12 or later.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import NamedTuple

from leasefs.client.process import status_fields

# The same numbers on every architecture but alpha (syscalls.tbl).
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_OPENAT2 = 437
_SYS_MOUNT_SETATTR = 442

_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOVE_MOUNT_T_EMPTY_PATH = 0x40
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE_CACHED = 0x20
_MOUNT_ATTR_NOSUID = 0x2
_MOUNT_ATTR_NODEV = 0x4
_MS_PRIVATE = 1 << 18
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8

_O_DIRECTORY_PATH = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CAP_SYS_ADMIN = 21
# FUSE_NOTIFY_INVAL_ENTRY can expire an entry without dropping it (and what is mounted on it) since then.
_SINCE_LINUX = (6, 2)

_libc = ctypes.CDLL(None, use_errno=True)


class Handle(NamedTuple):
    """What the kernel says of a descriptor without asking a file system (proc_pid_fdinfo(5))."""

    mount_id: int
    number: int


def permitted() -> bool:
    """Whether this process may bind, on a kernel that has all that is needed."""
    release = platform.release().split(".")
    try:
        recent = (int(release[0]), int(release[1])) >= _SINCE_LINUX
    except (IndexError, ValueError):
        return False
    return recent and bool(_effective_capabilities() >> _CAP_SYS_ADMIN & 1)


def _effective_capabilities() -> int:
    return int(status_fields("self", "CapEff")["CapEff"], 16)


def handle_of(fd: int) -> Handle:
    """The mount and the inode number that a descriptor leads to. Linux 5.14 or later."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as info:
        fields = dict(line.split(":\t", 1) for line in info if ":\t" in line)
    return Handle(int(fields["mnt_id"]), int(fields["ino"]))


def open_cached(root_fd: int, path: bytes) -> int:
    """An O_PATH descriptor of a directory below `root_fd`, from the kernel's caches alone.

    Raises:
        OSError: EAGAIN if the kernel would have to ask the file system; EXDEV if something is mounted
            on the way or there; ELOOP or ENOTDIR for anything but directories.
    """
    resolve = _RESOLVE_NO_XDEV | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH
    # struct open_how: flags, mode, resolve
    how = struct.pack("=QQQ", _O_DIRECTORY_PATH, 0, resolve | _RESOLVE_CACHED)
    at = ctypes.c_char_p(path)
    return _checked(_libc.syscall(_SYS_OPENAT2, root_fd, at, ctypes.c_char_p(how), len(how)))


def bind(source_fd: int, target_fd: int) -> int:
    """Mount the directory `source_fd` over `target_fd`, privately, as nosuid and nodev; its mount id.

    What is mounted below the source is not taken along.

    Raises:
        OSError: the kernel refused (EPERM without CAP_SYS_ADMIN).
    """
    empty = ctypes.c_char_p(b"")
    tree_fd = clone(source_fd)
    try:
        # struct mount_attr: attr_set, attr_clr, propagation, userns_fd
        set_ = struct.pack("=QQQQ", _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV, 0, _MS_PRIVATE, 0)
        at = ctypes.c_char_p(set_)
        _checked(_libc.syscall(_SYS_MOUNT_SETATTR, tree_fd, empty, _AT_EMPTY_PATH, at, len(set_)))
        both = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
        _checked(_libc.syscall(_SYS_MOVE_MOUNT, tree_fd, empty, target_fd, empty, both))
        return handle_of(tree_fd).mount_id
    finally:
        os.close(tree_fd)


def clone(source_fd: int) -> int:
    """A copy of the mount from the directory `source_fd` on, without what is mounted below, attached nowhere.

    Raises:
        OSError: the kernel refused (EPERM without CAP_SYS_ADMIN).
    """
    flags = _OPEN_TREE_CLONE | _AT_EMPTY_PATH | os.O_CLOEXEC
    return _checked(_libc.syscall(_SYS_OPEN_TREE, source_fd, ctypes.c_char_p(b""), flags))


def unbind(path: str, *, lazy: bool) -> bool:
    """Unmount what is mounted at `path`; False if it is in use or not there. Resolves the path."""
    flags = _UMOUNT_NOFOLLOW | (_MNT_DETACH if lazy else 0)
    return bool(_libc.umount2(os.fsencode(path), flags) == 0)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def is_passing(error: OSError) -> bool:
    """Whether a bind that failed with this may succeed a moment later."""
    return error.errno in {errno.EAGAIN, errno.ENOENT, errno.ESTALE}
