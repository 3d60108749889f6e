"""Telling the kernel about one directory entry that it has cached (`enum fuse_notify_code`, fuse.h).

Written straight to the connection: libfuse's own call drops an entry, and with it what is mounted on
it; here it can also be made to expire, which only has it looked up again at the next use.
Either waits for the lock of the directory above, which a process holds while we owe it an answer: never
call it on the loop.
"""

from __future__ import annotations

import os
import struct

_NOTIFY_INVAL_ENTRY = 3
_EXPIRE_ONLY = 1
# struct fuse_out_header (len, error, unique) and fuse_notify_inval_entry_out (parent, namelen, flags).
_FORM = struct.Struct("=IiQQII")


class Notices:
    """Notices over the connection `fd`, which stays the caller's."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def expire(self, parent: int, name: bytes) -> None:
        """Have the entry looked up again. Raises FileNotFoundError if the kernel does not know it."""
        self._send(parent, name, _EXPIRE_ONLY)

    def drop(self, parent: int, name: bytes) -> None:
        """Drop the entry and all below; whatever is mounted there is detached, in every namespace.

        Raises:
            FileNotFoundError: the kernel does not know the entry.
        """
        self._send(parent, name, 0)

    def _send(self, parent: int, name: bytes, flags: int) -> None:
        length = _FORM.size + len(name) + 1
        head = _FORM.pack(length, _NOTIFY_INVAL_ENTRY, 0, parent, len(name), flags)
        os.write(self._fd, head + name + b"\0")
