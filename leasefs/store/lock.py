"""One owner for a ledger file: flock(2) on ``<db>.lock``, which the kernel drops with the process.

The lock file is never removed: removing it would let two processes lock two different files. What is
in it (the owner's pid) is for people; only the flock decides. A file descriptor that survives in a
forked child keeps the lock, as flock(2) says; descriptors made here do not survive exec.
"""

from __future__ import annotations

import fcntl
import os

from leasefs.store.errors import StoreLocked

_RELEASED = b"released\n"


class LedgerLock:
    """Held from construction to ``release`` or the end of the process.

    Attributes:
        owned_before: some process has owned this ledger at some time before.
    """

    def __init__(self, db_path: str) -> None:
        """Take the lock without waiting.

        Raises:
            StoreLocked: somebody else holds it.
            OSError: the lock file cannot be made or opened.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd: int | None = os.open(db_path + ".lock", flags, 0o600)
        try:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreLocked(db_path, _living_pid(self._fd)) from error
            self.owned_before = os.fstat(self._fd).st_size > 0
            _write_over(self._fd, b"%d\n" % os.getpid())
        except BaseException:
            os.close(self._fd)
            raise

    def release(self) -> None:
        """Let go. May be called twice.

        Raises:
            OSError: the lock file could not be written; the lock is gone all the same.
        """
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            _write_over(fd, _RELEASED)
        finally:
            os.close(fd)


def _write_over(fd: int, content: bytes) -> None:
    # Write, then cut: the file is never empty in between, so `owned_before` survives a crash here.
    os.pwrite(fd, content, 0)
    os.ftruncate(fd, len(content))


def _living_pid(fd: int) -> int | None:
    # Between flock and pwrite the file still names the owner before; do not accuse the dead.
    first_line = os.pread(fd, 32, 0).split(b"\n")[0]
    if not first_line.isdigit():
        return None
    pid = int(first_line)
    return pid if os.path.exists(f"/proc/{pid}") else None
