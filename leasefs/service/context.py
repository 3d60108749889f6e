"""What the routes work with: one ledger being served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core.answers import LeaseAnswer
from leasefs.service.exchange import Answer, json_answer

if TYPE_CHECKING:
    from leasefs.core.commands import AnyCommand
    from leasefs.core.ledger import Decision
    from leasefs.core.state import State
    from leasefs.service.stream import StreamHub
    from leasefs.service.writer import LedgerWriter


@dataclass(frozen=True, slots=True)
class Ledger:
    """The parts of a running ledger. `started_at_s` is ledger time; `store` says where the log is."""

    writer: LedgerWriter
    hub: StreamHub
    started_at_s: float
    store: str
    own_uid: int

    @property
    def state(self) -> State:
        """The durable state: the only one that anybody is told about."""
        return self.writer.durable

    def now_s(self) -> float:
        """Ledger time."""
        return self.writer.now_s()

    async def carry_out(self, command: AnyCommand, status: int = 200) -> Answer:
        """Decide `command`, make it durable, and answer. Raises the LeasefsError that refused it."""
        return decided(await self.writer.submit(command), status)


def decided(decision: Decision, status: int = 200) -> Answer:
    """The answer that a decision gives; raises its error."""
    if decision.error is not None:
        raise decision.error
    return json_answer(status, decision.answer)


def claim_status(answer: object) -> int:
    """201 for a lease that was granted, 202 for a claim that waits, 200 for what a key was used for before."""
    state = answer.state if isinstance(answer, LeaseAnswer) else ""
    return {"granted": 201, "waiting": 202}.get(state, 200)
