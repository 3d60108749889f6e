"""What every kind of fault has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from chaos_runs.storm import Storm


class Nemesis:
    """One kind of fault. `strike` makes it, waits, and makes it good again, also when the storm is over meanwhile.

    The greater its `weight`, the oftener it strikes.
    """

    is_fault = True

    def __init__(self, kind: str, *, weight: float) -> None:
        self.kind = kind
        self.weight = weight

    def unfit(self, storm: Storm) -> str:
        """Why it cannot be done here; empty if it can, as nearly always."""
        return ""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """Do it once."""
        raise NotImplementedError
