"""What keeps a mount's process small, and its loop free of the collector: mallopt(3), malloc_trim(3), gc."""

from __future__ import annotations

import ctypes
import gc

_M_ARENA_MAX = -8
_COLLECT_AFTER = 50_000
_libc = ctypes.CDLL(None)


def use_one_arena() -> None:
    """Have malloc(3) use one arena for all threads: another for each would hold memory that nobody uses.

    Call it before there are threads.
    """
    _libc.mallopt(_M_ARENA_MAX, 1)


def spare_the_collector() -> None:
    """What is there now stays, and what comes (an object for each inode) has no cycles.

    Looking through all of it for some, as often as is usual, would stop the loop for tens of milliseconds each time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def give_back() -> None:
    """Give the system what malloc(3) holds and nobody uses: what starting needed, or looking through a tree."""
    _libc.malloc_trim(0)
