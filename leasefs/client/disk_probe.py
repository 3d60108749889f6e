"""Whether a directory takes writes: what no look can tell (a full disk, a failing one, one that became read-only)."""

from __future__ import annotations

import os
from contextlib import suppress

PROBE = ".health"
_PROBE_BYTES = 4096
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def why_no_writes(directory: str) -> str:
    """Bring a small file to the disk and remove it; in words why that failed, empty if it did not. Blocks."""
    path = os.path.join(directory, f"{PROBE}-{os.getpid()}")
    try:
        with suppress(FileNotFoundError):
            os.unlink(
                path
            )  # of a process that was killed in the middle of this, and had our number
        fd = os.open(path, _FLAGS, 0o600)
        try:
            os.write(fd, bytes(_PROBE_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
            os.unlink(path)
    except OSError as error:
        return f"{directory} takes no writes: {error.strerror}"
    return ""
