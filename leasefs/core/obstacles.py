"""What a claim must wait for: holders, earlier waiters, or else admission (P7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core import admission
from leasefs.core.queue import Standing, standing

if TYPE_CHECKING:
    from leasefs.core.answers import Blocker
    from leasefs.core.records import Claim
    from leasefs.core.state import State


@dataclass(slots=True)
class Obstacles:
    """All that a claim must wait for. `held_back` is why admission stops it, if nothing else does.

    `closed` says that it is not the territory's: the ledger grants nothing at all now.
    """

    before: Standing
    held_back: str | None
    closed: bool = False

    def __bool__(self) -> bool:
        return bool(self.before) or self.held_back is not None

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.before) + (self.held_back is not None)

    def told(self, claim: Claim, now_s: float) -> tuple[Blocker, ...]:
        """The first of them: holders, then earlier waiters in their order, or admission."""
        if self.held_back is not None:
            kind = "closed" if self.closed else "admission"
            return (admission.blocker(claim, self.held_back, kind),)
        return self.before.told(now_s)


def obstacles(state: State, claim: Claim, now_s: float) -> Obstacles:
    """Everything that stands before a claim, whether it waits already or not.

    One that does not wait yet stands at the end: whom a full territory must let in is decided among those that wait.
    """
    before = standing(state, claim, now_s)
    if before:
        return Obstacles(before, None)
    why = admission.closed(state, now_s)
    if why:
        return Obstacles(before, why, closed=True)
    if claim.id in state.waiters:
        return Obstacles(before, admission.held_back(state, claim, now_s))
    return Obstacles(before, admission.over_limit(state, claim))
