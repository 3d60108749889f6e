"""A decision in the making: events so far, and the state they lead to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasefs.core.events import AnyEvent, Recorded
from leasefs.core.state import State, apply

if TYPE_CHECKING:
    from msgspec import Struct

    from leasefs.core.errors import LeasefsError


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a command: what happened, the state afterwards, and what to tell the caller.

    With `error` set the caller is refused; the events, if any, are the trace the refusal leaves in
    the history (P11).
    """

    events: tuple[Recorded, ...]
    state: State
    answer: Struct | None = None
    error: LeasefsError | None = None


@dataclass(slots=True)
class Draft:
    """Collects the events of one decision and applies each at once, so that the next step sees it."""

    state: State
    now_s: float
    events: list[Recorded] = field(default_factory=list)

    @property
    def next_seq(self) -> int:
        """The sequence number that the next event will get."""
        return self.state.seq + 1

    def emit(self, event: AnyEvent) -> None:
        """Record one more event."""
        recorded = Recorded(self.next_seq, self.now_s, event)
        self.state = apply(self.state, recorded)
        self.events.append(recorded)

    def done(self, answer: Struct) -> Decision:
        """The decision, with `answer` for the caller."""
        return Decision(tuple(self.events), self.state, answer=answer)

    def refused(self, error: LeasefsError) -> Decision:
        """The decision that the caller is refused."""
        return Decision(tuple(self.events), self.state, error=error)
