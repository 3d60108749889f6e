"""No flood of messages: a program that retries a refused write in a loop must not fill a disk or a journal.

Messages are told apart by where they are logged and by their event, not by what is in them: the first come through,
then so many a second, and the next one says how many were left out.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

AT_ONCE = 50
PER_S = 5.0


class FloodLimit(logging.Filter):
    """A filter for one handler. A message that comes through after others did not has their number in its facts."""

    def __init__(
        self,
        at_once: int = AT_ONCE,
        per_s: float = PER_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._at_once = at_once
        self._per_s = per_s
        self._now_s = now_s
        # By place: how many may come now, as of when, and how many were left out.
        self._places: dict[tuple[str, int], tuple[float, float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it may come through."""
        place, now_s = (record.pathname, record.lineno), self._now_s()
        room, at_s, left_out = self._places.get(place, (float(self._at_once), now_s, 0))
        room = min(self._at_once, room + (now_s - at_s) * self._per_s)
        if room < 1:
            self._places[place] = room, now_s, left_out + 1
            return False
        if left_out:
            record.facts = {**getattr(record, "facts", {}), "left_out": left_out}
        self._places[place] = room - 1, now_s, 0
        return True
