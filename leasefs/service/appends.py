"""How the appends to the store go: their time and size, and what becomes of them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasefs.core.exposition import Counts, Histogram
from leasefs.store.errors import SequenceConflict, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.exposition import Family

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_EVENTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
_WHY = "full", "unavailable", "conflict", "other"


class Appends:
    """Counts of one writer."""

    def __init__(self) -> None:
        self._seconds = Histogram(
            "leasefs_store_append_seconds",
            "How long appends to the log took until they were on disk.",
            _SECONDS,
        )
        self._events = Histogram(
            "leasefs_store_append_events", "How many events one append brought.", _EVENTS
        )
        self._failures = Counts(
            "leasefs_store_append_failures_total",
            "Appends that failed: no room, the disk or the engine, another server was first, anything else.",
            ("why",),
            [(why,) for why in _WHY],
        )

    @contextmanager
    def one(self, events: int) -> Iterator[None]:
        """Around one append."""
        began_s = time.monotonic()
        try:
            yield
        except Exception as error:
            self._failures.add(_why(error))
            raise
        self._seconds.observe(time.monotonic() - began_s)
        self._events.observe(events)

    def families(self) -> Iterator[Family]:
        """As they stand."""
        yield self._seconds.family()
        yield self._events.family()
        yield self._failures.family()


def _why(error: Exception) -> str:
    if isinstance(error, SequenceConflict):
        return "conflict"
    if isinstance(error, StoreFull):
        return "full"
    return "unavailable" if isinstance(error, StoreUnavailable) else "other"
