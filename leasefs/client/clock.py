"""The one place in the client and the mount where time is read or waited for."""

from __future__ import annotations

import time


class BoottimeClock:
    """A `leasefs.core.clock.Clock` on CLOCK_BOOTTIME, which counts suspended time too (P3)."""

    __slots__ = ()

    def now_s(self) -> float:
        """Seconds since boot, suspend included (clock_gettime(2)). Never goes back."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall_s(self) -> float:
        """Seconds since the epoch, for people and for the log; decides nothing."""
        return time.time()  # noqa: TID251 - the designated clock


def pause(seconds: float) -> None:
    """Block this thread for `seconds`. For polling a condition with a deadline, nothing else."""
    time.sleep(seconds)  # noqa: TID251 - the designated clock
