"""Mounting anew where a dead mount still covers the place, without uncovering it for a moment (P12).

Root puts the new mount over the dead one and takes both away at the end. Where the dead one covers the tree itself,
the way beneath it is a clone of the mount around it, which leaves out what is mounted there; the directory found so
is opened again by its handle on the mount around, so that it has its own path and not the clone's.

Anyone else has to clear the dead mount first, because fusermount3 wants to look at the mountpoint: the tree is bare
until the new mount is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import struct
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from leasefs.client.log_events import Event, note
from leasefs.core.errors import NotMounted
from leasefs.mount.bind import clone, permitted, unbind
from leasefs.mount.mountinfo import mounts, top_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.mountpoint import MountOptions

log = logging.getLogger(__name__)

_AT_EMPTY_PATH = 0x1000
_HANDLE_BYTES = 128  # MAX_HANDLE_SZ
_O_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_DEAD = 1000

_libc = ctypes.CDLL(None, use_errno=True)


def is_dead(mountpoint: str) -> bool:
    """Whether a leasefs mount is there whose daemon is gone. Not to be asked of one that may be silent."""
    there = top_at(mountpoint)
    if there is None or not there.is_leasefs:
        return False
    try:
        os.statvfs(mountpoint)
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


@contextlib.contextmanager
def entered(options: MountOptions) -> Iterator[MountOptions]:
    """The same options with a way to the tree that a dead mount may cover, until the block ends.

    Raises:
        NotMounted: the dead mount can be neither mounted over nor cleared.
    """
    if not options.over_dead or not is_dead(options.real_mountpoint):
        yield options
        return
    if not permitted():
        clear_dead(options.real_mountpoint)
        yield options
        return
    words = f"{options.real_mountpoint} is a dead mount: mounting over it"
    note(log, Event.MOUNTED_OVER_DEAD, words, mountpoint=options.real_mountpoint)
    if not options.in_place:
        yield replace(options, covers_dead=True)
        return
    tree_fd = _open_or_clear(options.real_mountpoint)
    if tree_fd is None:
        yield options
        return
    try:
        yield replace(options, covers_dead=True, entry=f"/proc/self/fd/{tree_fd}")
    finally:
        os.close(tree_fd)


def _open_or_clear(path: str) -> int | None:
    try:
        return open_beneath(path)
    except OSError as error:
        log.warning(
            "%s cannot be reached beneath its dead mount (%s): that is cleared first, and the tree is bare "
            "until the new mount is made",
            path,
            error.strerror,
        )
        clear_dead(path)
        return None


def open_beneath(path: str) -> int:
    """A descriptor of the directory that leasefs mounts at `path` cover, as if it had been opened before them.

    Raises:
        OSError: EXDEV if something else is mounted there beneath them; EOPNOTSUPP if its file system
            has no handles; whatever else the kernel refuses.
    """
    wanted = os.fsencode(path)
    if any(mount.mountpoint == wanted and not mount.is_leasefs for mount in mounts()):
        raise OSError(errno.EXDEV, "it is a mountpoint of another file system as well")
    parent, name = os.path.split(path)
    parent_fd = os.open(parent, _O_DIRECTORY)
    try:
        clone_fd = clone(parent_fd)
        try:
            cloned_fd = os.open(name, _O_DIRECTORY, dir_fd=clone_fd)
        finally:
            os.close(clone_fd)
        try:
            return _opened_by_handle(cloned_fd, parent_fd)
        finally:
            os.close(cloned_fd)
    finally:
        os.close(parent_fd)


def _opened_by_handle(fd: int, mount_fd: int) -> int:
    # struct file_handle: bytes, type, the handle
    handle = ctypes.create_string_buffer(struct.pack("=Ii", _HANDLE_BYTES, 0), 8 + _HANDLE_BYTES)
    mount_id = ctypes.c_int()
    _check(_libc.name_to_handle_at(fd, b"", handle, ctypes.byref(mount_id), _AT_EMPTY_PATH))
    return _check(_libc.open_by_handle_at(mount_fd, handle, _O_DIRECTORY))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def clear_dead(mountpoint: str) -> None:
    """Detach every dead leasefs mount at the place, however many lie over each other.

    Raises:
        NotMounted: one cannot be detached.
    """
    for _ in range(_MOST_DEAD):
        if not is_dead(mountpoint):
            return
        if os.geteuid() == 0:
            if not unbind(mountpoint, lazy=True):
                raise NotMounted(
                    f"the dead mount at {mountpoint} cannot be cleared", path=mountpoint
                )
            continue
        command = ["fusermount3", "-u", "-z", "--", mountpoint]
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
        )
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip()
            raise NotMounted(
                f"the dead mount at {mountpoint} cannot be cleared: {why}", path=mountpoint
            )
