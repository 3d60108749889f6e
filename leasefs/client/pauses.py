"""How long to leave alone what does not answer: ever longer, up to a bound."""

from __future__ import annotations

from typing import NamedTuple

# Twice as long each time: after so many it is a thousand times the first one.
_DOUBLINGS = 10


class Pauses(NamedTuple):
    """The first pause and the longest one, in seconds."""

    least_s: float
    most_s: float

    def after_s(self, failures: int) -> float:
        """The pause after so many failures in a row that each had one before."""
        return min(self.most_s, self.least_s * 2.0 ** min(failures, _DOUBLINGS))
