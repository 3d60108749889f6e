"""Telling the kernel about what it has cached (`enum fuse_notify_code`, include/uapi/linux/fuse.h).

Written straight to the connection: libfuse's own call drops an entry, and with it what is mounted on
it; here it can also be made to expire, which only has it looked up again at the next use.
Telling of an entry waits for the lock of the directory above, and dropping pages for theirs; a process may
hold one while we owe it an answer: never do either on the loop.
"""

from __future__ import annotations

import errno
import os
import struct

_NOTIFY_INVAL_INODE = 2
_NOTIFY_INVAL_ENTRY = 3
_NOTIFY_INC_EPOCH = 8
_EXPIRE_ONLY = 1
# struct fuse_out_header (len, error, unique) and fuse_notify_inval_entry_out (parent, namelen, flags).
_FORM = struct.Struct("=IiQQII")
# struct fuse_out_header and fuse_notify_inval_inode_out (ino, off, len).
_INODE = struct.Struct("=IiQQqq")
_HEADER = struct.Struct("=IiQ")


class Notices:
    """Notices over the connection `fd`, which stays the caller's.

    Until `begin` nothing is sent, and the kernel counts as knowing nothing: before the first exchange the
    descriptor is not the connection yet, and what is written would be taken for libfuse's answer to it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._begun = False

    def begin(self) -> None:
        """The first exchange with the kernel is over."""
        self._begun = True

    def expire(self, parent: int, name: bytes) -> None:
        """Have the entry looked up again. Raises FileNotFoundError if the kernel does not know it."""
        self._send(parent, name, _EXPIRE_ONLY)

    def drop(self, parent: int, name: bytes) -> None:
        """Drop the entry and all below; whatever is mounted there is detached, in every namespace.

        Raises:
            FileNotFoundError: the kernel does not know the entry.
        """
        self._send(parent, name, 0)

    def inode(self, number: int, *, pages: bool) -> None:
        """Have an inode's attributes asked for again, and all its bytes if `pages`.

        Raises:
            FileNotFoundError: the kernel does not know the inode.
        """
        offset = 0 if pages else -1
        self._write(_INODE.pack(_INODE.size, _NOTIFY_INVAL_INODE, 0, number, offset, 0))

    def all_entries(self) -> None:
        """Have every entry looked up again, those that are not there included; takes no lock.

        Raises:
            OSError: EINVAL before Linux 6.16.
        """
        self._write(_HEADER.pack(_HEADER.size, _NOTIFY_INC_EPOCH, 0))

    def _send(self, parent: int, name: bytes, flags: int) -> None:
        length = _FORM.size + len(name) + 1
        head = _FORM.pack(length, _NOTIFY_INVAL_ENTRY, 0, parent, len(name), flags)
        self._write(head + name + b"\0")

    def _write(self, message: bytes) -> None:
        if not self._begun:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        os.write(self._fd, message)
