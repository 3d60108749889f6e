"""How the loop turns and how this machine's clocks go, looked at now and then.

Nothing is decided by it: deadlines count on CLOCK_BOOTTIME, which no step of the wall clock moves and which counts on
while the machine sleeps (P3). But whoever reads the log's times, or wonders why leases lapsed, wants to know.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client.log_events import Event, note
from leasefs.core.exposition import Counts, counter, gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.core.exposition import Family

LOOK_EVERY_S = 10.0
STEP_S = 0.5
"""A wall clock that is disciplined by small steps is not worth a word."""
_log = logging.getLogger(__name__)


class Reading(NamedTuple):
    """What three clocks said at one moment (clock_gettime(2))."""

    wall_s: float
    boottime_s: float
    monotonic_s: float


def read_clocks() -> Reading:
    """Now."""
    return Reading(
        time.clock_gettime(time.CLOCK_REALTIME),
        time.clock_gettime(time.CLOCK_BOOTTIME),
        time.clock_gettime(time.CLOCK_MONOTONIC),
    )


class Pulse:
    """Looks at one process."""

    def __init__(self, read: Callable[[], Reading] = read_clocks) -> None:
        self._read = read
        self._last = read()
        self._suspended_s = 0.0
        self._late_s = 0.0
        self._steps = Counts(
            "leasefs_clock_steps_total",
            "Steps of the wall clock by more than half a second; leases do not depend on it.",
            ("direction",),
            [("forward",), ("back",)],
        )

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            due_s = time.monotonic() + LOOK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)
            self._late_s = max(0.0, time.monotonic() - due_s)
            self.look()

    def look(self) -> None:
        """Compare with the last look."""
        last, self._last = self._last, self._read()
        passed_s = self._last.boottime_s - last.boottime_s
        stepped_s = self._last.wall_s - last.wall_s - passed_s
        self._suspended_s += max(0.0, passed_s - (self._last.monotonic_s - last.monotonic_s))
        if abs(stepped_s) > STEP_S:
            self._steps.add("forward" if stepped_s > 0 else "back")
            words = f"the wall clock was set by {stepped_s:+.1f} s; times in the log jump with it, leases do not"
            note(_log, Event.CLOCK_STEP, words, stepped_s=round(stepped_s, 3))

    def families(self) -> Iterator[Family]:
        """As they stand."""
        yield self._steps.family()
        yield counter(
            "leasefs_suspended_seconds_total",
            "How long the machine slept while this process lived.",
            round(self._suspended_s, 3),
        )
        yield gauge(
            "leasefs_loop_late_seconds",
            "By how much the event loop came late to its last appointment.",
            round(self._late_s, 6),
        )
