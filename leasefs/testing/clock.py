"""A clock that moves only when a test says so."""

from __future__ import annotations


class FakeClock:
    """A ``leasefs.core.clock.Clock`` in the hands of a test."""

    __slots__ = ("_now_s", "_wall_s")

    def __init__(self, now_s: float = 1_000.0, wall_s: float = 1_700_000_000.0) -> None:
        self._now_s = now_s
        self._wall_s = wall_s

    def now_s(self) -> float:
        """Seconds, boottime-like: only ``advance`` moves it, and only forward."""
        return self._now_s

    def wall_s(self) -> float:
        """Seconds since the epoch; ``advance`` and ``step_wall`` move it."""
        return self._wall_s

    def advance(self, seconds: float) -> None:
        """Let time pass on both readings.

        Raises:
            ValueError: ``seconds`` is negative; boottime never goes back.
        """
        if seconds < 0:
            raise ValueError(f"boottime never goes back: advance({seconds})")
        self._now_s += seconds
        self._wall_s += seconds

    def step_wall(self, seconds: float) -> None:
        """Step the wall clock alone, either way, as an operator or NTP does."""
        self._wall_s += seconds
