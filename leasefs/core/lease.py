"""What a lease is. Plain values; who may hold one is decided in `leasefs.core.ledger`."""

from __future__ import annotations

from enum import Enum

MIN_TTL_S = 1.0
MAX_TTL_S = 24 * 3600.0
DEFAULT_TTL_S = 30 * 60.0
MAX_GLOBS = 256
# A session that was not heard of for so long is taken to be gone; it may come back (P5).
SESSION_TTL_S = 90.0


class Mode(Enum):
    """How a lease is held. Only an exclusive lease lets its holder write (P2)."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


def trust_margin_s(ttl_s: float) -> float:
    """How much earlier than the ledger a holder stops trusting its lease (P3), in seconds.

    Covers the difference in rate of two hosts' clocks (200 ppm over the longest TTL are 17 s) and the
    time between a check and the system call that follows it.
    """
    return min(30.0, max(0.25, ttl_s * 0.05))
