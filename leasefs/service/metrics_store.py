"""The log's files and snapshots, for the monitor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.core.exposition import gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.exposition import Family

_WITH = "", "-wal"


def store_families(path: str) -> Iterator[Family]:
    """Sizes of the log's file at `path`, and the room around it; nothing of what cannot be looked at."""
    yield gauge(
        "leasefs_store_bytes",
        "Size of the log on disk, its write-ahead part included.",
        _size(path),
    )
    free = _free(path)
    yield gauge("leasefs_store_free_bytes", "Room left on the log's file system.", free)


def _size(path: str) -> float | None:
    try:
        return float(sum(os.stat(path + suffix).st_size for suffix in _WITH))
    except OSError:
        return None


def _free(path: str) -> float | None:
    try:
        system = os.statvfs(os.path.dirname(path))
    except OSError:
        return None
    return float(system.f_bavail * system.f_frsize)
