"""How long events from beneath are gathered before anybody looks: of many on one name one look is enough.

Where dozens of mounts show one tree, each is woken by the edits of all others, and waking is what costs most. So while
changes keep coming they are looked at together, unless a name came or went: until the kernel is told, it finds the
former there, or nothing. Of bytes it learns at the next open at the latest.
"""

from __future__ import annotations

# How late a change made elsewhere is seen: about this, or by so much more if it is one of bytes or attributes in a row.
GATHER_S = 0.01
MORE_S = 0.03
# So soon after the last ones, events are no single ones.
_IN_A_ROW_S = 0.1


class Pace:
    """The pauses of one mount. Times are seconds on the loop's clock."""

    def __init__(self) -> None:
        self._looked_s = float("-inf")

    def more_s(self, now_s: float, *, names: bool) -> float:
        """How much longer to gather, after `GATHER_S`; `names` if a name came or went."""
        return MORE_S if not names and now_s - self._looked_s < _IN_A_ROW_S else 0.0

    def looked(self, now_s: float) -> None:
        """What was gathered is looked at."""
        self._looked_s = now_s
