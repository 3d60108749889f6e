"""Bringing a file or a directory to disk by its path (fsync(2))."""

from __future__ import annotations

import os


def sync(path: str) -> None:
    """Return once what is at `path`, or the names in that directory, is on disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
