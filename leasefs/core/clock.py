"""What the rules and their callers mean by a clock; no clock is read here.

``core`` takes ``now_s`` as an argument. The service, the client and the tests each bring a clock of
this shape and ask it before they call ``core``.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two readings that must not be mixed up."""

    def now_s(self) -> float:
        """Seconds since some fixed start, CLOCK_BOOTTIME-like (clock_gettime(2)).

        Never goes back and keeps counting through suspend (promise P3). Deadlines are counted on
        this reading; it means nothing on another host or after a reboot.
        """
        ...

    def wall_s(self) -> float:
        """Seconds since the epoch, for people and for the log. May jump either way; decides nothing."""
        ...
