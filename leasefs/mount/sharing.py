"""Whether other mounts of this host hold the same tree."""

from __future__ import annotations

import fcntl
import os


class Sharing:
    """A shared lock (flock(2)) on the root beneath, which every mount of the tree has while it lives."""

    def __init__(self, root_fd: int) -> None:
        """`root_fd` stays the caller's."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._fd = os.open(f"/proc/self/fd/{root_fd}/.", flags)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def is_alone(self) -> bool:
        """Whether no other mount holds the tree now.

        A conversion that fails gives the old lock up (flock(2)), so it is taken again; in the instant between,
        another mount that asks the same may find itself alone.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        else:
            alone = True
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        return alone

    def close(self) -> None:
        """Give the lock up."""
        os.close(self._fd)
