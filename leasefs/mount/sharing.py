"""Whether other mounts of this host hold the same tree."""

from __future__ import annotations

import fcntl
import os
import struct

# struct flock (fcntl(2), <bits/fcntl.h>): type, whence, start, len, pid.
_FLOCK = "hhqqi"
# One byte of no directory's content; nobody else has a reason to lock it.
_BYTE = 0x6C65617365667300
# For so long an answer is good: a mount has its lock long before anybody can use it.
_KNOWN_FOR_S = 0.05


class Sharing:
    """A read lock on the root beneath, which every mount of the tree has while it lives.

    It belongs to the open directory (open file description locks, fcntl(2)), so it ends with the process, however
    that ends. Asking who else has one takes no lock, so nobody is ever waited for, and no two who ask disturb each
    other. A flock(2) on the directory, which people use, is another kind of lock.
    """

    def __init__(self, root_fd: int) -> None:
        """`root_fd` stays the caller's. Raises OSError if the file system has no locks."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._fd = os.open(f"/proc/self/fd/{root_fd}/.", flags)
        self._alone, self._until_s = False, float("-inf")
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _lock(fcntl.F_RDLCK))
        except OSError:
            os.close(self._fd)
            raise

    def is_alone(self, now_s: float | None = None) -> bool:
        """Whether no other mount holds the tree now; given the time, as of a moment ago at most."""
        if now_s is None or not now_s < self._until_s:
            found = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK))
            self._alone = struct.unpack(_FLOCK, found)[0] == fcntl.F_UNLCK
            if now_s is not None:
                self._until_s = now_s + _KNOWN_FOR_S
        return self._alone

    def close(self) -> None:
        """Give the lock up."""
        os.close(self._fd)


def _lock(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, _BYTE, 1, 0)
