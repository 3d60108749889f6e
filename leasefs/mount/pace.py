"""How long events from beneath are gathered before anybody looks: of many on one name one look is enough.

Where dozens of mounts show one tree, each is woken by the edits of all others, and waking is what costs most. So while
changes of bytes keep coming they are looked at together. Of bytes the kernel learns at the next open at the latest; but
until it is told of names it finds the former there, or nothing, so where names come and go nothing is left to wait.
"""

from __future__ import annotations

# How late a change made elsewhere is seen: about this, or the other while changes of bytes keep coming.
SOON_S = 0.01
BUSY_S = 0.04
# So soon after the last ones, events are no single ones.
_IN_A_ROW_S = 0.1


class Pace:
    """The pauses of one mount. Times are seconds on the loop's clock."""

    def __init__(self) -> None:
        self._looked_s = float("-inf")
        self._names = True

    def pause_s(self, now_s: float) -> float:
        """How long to gather when the first event is there."""
        in_a_row = now_s - self._looked_s < _IN_A_ROW_S
        return BUSY_S if in_a_row and not self._names else SOON_S

    def looked(self, now_s: float, *, names: bool) -> None:
        """What was gathered is looked at; `names` if a name came or went."""
        self._looked_s, self._names = now_s, names
