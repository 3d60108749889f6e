"""How often somebody may do something: token buckets, one for each client, in bounded memory.

A bucket is one number: when it will be full again (the generic cell rate algorithm of ITU-T I.371). One that is full is
as good as none, so what is remembered is only of clients that were busy a moment ago.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_CLIENTS = 20_000
"""Clients remembered at once. Those beyond share one bucket: a flood of invented addresses is one client."""

_BEYOND = ""
_ROUNDING_S = 1e-6


class Pace(NamedTuple):
    """So many a second for long, and `burst` at once; 0 a second is without limit."""

    per_s: float
    burst: float


class Buckets:
    """The buckets of one kind of thing that clients do."""

    def __init__(self, pace: Pace, most_clients: int = MOST_CLIENTS) -> None:
        self.pace = pace
        self._most_clients = most_clients
        self._full_at_s: dict[str, float] = {}

    def __len__(self) -> int:
        """How many clients are remembered."""
        return len(self._full_at_s)

    def take(self, client: str, now_s: float, patience_s: float = 0.0) -> tuple[bool, float]:
        """Take one out: whether that was possible, and how many seconds to wait before doing it.

        It is, as long as that is at most `patience_s`; else nothing is taken, and it is how long until one could be.
        """
        if not self.pace.per_s:
            return True, 0.0
        each_s = 1.0 / self.pace.per_s
        client = self._remembered(client, now_s)
        full_at_s = max(self._full_at_s.get(client, now_s), now_s)
        wait_s = full_at_s - now_s - (self.pace.burst - 1.0) * each_s
        if wait_s < _ROUNDING_S:
            wait_s = 0.0
        if wait_s > patience_s:
            return False, wait_s
        self._full_at_s[client] = full_at_s + each_s
        return True, wait_s

    def _remembered(self, client: str, now_s: float) -> str:
        """The client whose bucket counts."""
        known = self._full_at_s
        if client in known or len(known) < self._most_clients:
            return client
        self._full_at_s = {one: full_s for one, full_s in known.items() if full_s > now_s}
        return client if len(self._full_at_s) < self._most_clients else _BEYOND
