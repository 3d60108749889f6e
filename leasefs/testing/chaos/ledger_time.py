"""What the agents' clocks said at each event of the log.

A ledger's time is CLOCK_BOOTTIME plus an offset, which changes where it goes on on another clock (a reboot, another
time namespace). Every start says both times; of starts on one clock the one that says the least between them was
the least delayed in between.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from leasefs.core.events import LedgerStarted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasefs.core.events import Recorded


class LedgerTime:
    """Turns ledger time into the agents' CLOCK_BOOTTIME."""

    def __init__(self, log: Sequence[Recorded], ahead_s: Mapping[str, float]) -> None:
        """`ahead_s` is how far the clock of a boot identity is ahead of the agents'; 0 if it is not named."""
        self._from_seq: list[int] = []
        self._offset_s: list[float] = []
        boot = None
        for recorded in log:
            event = recorded.event
            if not isinstance(event, LedgerStarted):
                continue
            offset_s = recorded.at_s - event.boottime_s + ahead_s.get(event.boot_id, 0.0)
            if event.boot_id == boot:
                self._offset_s[-1] = min(self._offset_s[-1], offset_s)
            else:
                self._from_seq.append(recorded.seq)
                self._offset_s.append(offset_s)
            boot = event.boot_id

    def boottime_s(self, recorded: Recorded) -> float:
        """When this was decided, on the agents' clock."""
        place = bisect_right(self._from_seq, recorded.seq) - 1
        return recorded.at_s - (self._offset_s[place] if place >= 0 else 0.0)
