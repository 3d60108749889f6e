"""How a store waits: the one place where watching meets real time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading


class Waiter(Protocol):
    """Waits on a condition, and says how long that took."""

    def now_s(self) -> float:
        """Seconds since some fixed start; never goes back."""
        ...

    def wait(self, condition: threading.Condition, timeout_s: float) -> None:
        """Wait on ``condition``, which the caller holds, for at most ``timeout_s`` seconds."""
        ...


class RealWaiter:
    """Real threads, real time."""

    def now_s(self) -> float:
        """Seconds, CLOCK_MONOTONIC: a watch's timeout is a courtesy, no deadline of a lease."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout_s: float) -> None:
        """Wait for a notification, at most ``timeout_s`` seconds."""
        condition.wait(timeout_s)
