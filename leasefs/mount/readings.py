"""What was read of each file before it was to be written: for writers that hold no lease while they read.

A lease that a write claims comes after the reading. What others wrote in between would be undone, so such a write is
refused, and the file has to be read again. Remembered by path, since a file that is replaced is another one, and for
each thread that read it: others of the same agent may have read something newer.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from leasefs.client.process import status_fields

if TYPE_CHECKING:
    from leasefs.mount.shapes import Stat

PATHS_KEPT = 20_000
THREADS_KEPT = 16

_Stamp = tuple[int, int, int]


class Readings:
    """The last reading of each file, by each thread."""

    def __init__(self) -> None:
        self._read: OrderedDict[bytes, dict[int, _Stamp]] = OrderedDict()

    def read(self, path: bytes, thread: int, found: Stat) -> None:
        """The thread begins to read the file, which is like this."""
        by_thread = self._read.setdefault(path, {})
        by_thread.pop(thread, None)
        by_thread[thread] = _stamp(found)
        if len(by_thread) > THREADS_KEPT:
            del by_thread[next(iter(by_thread))]
        self._read.move_to_end(path)
        if len(self._read) > PATHS_KEPT:
            self._read.popitem(last=False)

    def wrote(self, path: bytes, found: Stat | None) -> None:
        """We changed the file, under a lease or where none is needed; None if we removed it."""
        by_thread = self._read.get(path)
        if by_thread is not None and found is None:
            del self._read[path]
        elif by_thread is not None and found is not None:
            for thread in by_thread:
                by_thread[thread] = _stamp(found)

    def knows(self, path: bytes) -> bool:
        """Whether anything is remembered of this path."""
        return path in self._read

    def is_stale(self, path: bytes, thread: int, found: Stat | None) -> bool:
        """Whether the file, which is like this now, was changed by others since the thread's process read it.

        If that process did not, the last reading counts; a file that nobody read here is not stale.
        """
        by_thread = self._read.get(path)
        if not by_thread:
            return False
        return (None if found is None else _stamp(found)) != self._last(by_thread, thread)

    def _last(self, by_thread: dict[int, _Stamp], thread: int) -> _Stamp:
        process = _process_of(thread)
        latest_first = list(reversed(by_thread.items()))
        for other, stamp in latest_first:
            if other == thread or (process and _process_of(other) == process):
                return stamp
        return latest_first[0][1]


def _stamp(found: Stat) -> _Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _process_of(thread: int) -> str:
    try:
        return status_fields(thread, "Tgid")["Tgid"]
    except (OSError, KeyError, ValueError):
        return ""
