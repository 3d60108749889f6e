"""How long events from beneath are gathered before anybody looks: of many on one name one look is enough.

Where dozens of mounts show one tree, each is woken by the edits of all others, and waking is what costs most.
"""

from __future__ import annotations

# How late a change made elsewhere is seen: about this, or the other while changes keep coming.
ALONE_S = 0.01
BUSY_S = 0.04
# So soon after the last ones, events are no single ones.
_IN_A_ROW_S = 0.1


class Pace:
    """The pauses of one mount. Times are seconds on the loop's clock."""

    def __init__(self) -> None:
        self._looked_s = float("-inf")

    def pause_s(self, now_s: float) -> float:
        """How long to gather when the first event is there."""
        return BUSY_S if now_s - self._looked_s < _IN_A_ROW_S else ALONE_S

    def looked(self, now_s: float) -> None:
        """What was gathered is looked at."""
        self._looked_s = now_s
