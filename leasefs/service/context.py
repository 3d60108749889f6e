"""What the routes work with: one ledger being served."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasefs.core.answers import LeaseAnswer
from leasefs.service.compacting import Compactor
from leasefs.service.exchange import Answer, json_answer
from leasefs.service.health import Health
from leasefs.service.limits import Limiter
from leasefs.service.meters import Meters

if TYPE_CHECKING:
    import asyncio

    from leasefs.core.commands import AnyCommand
    from leasefs.core.ledger import Decision
    from leasefs.core.state import State
    from leasefs.service.history import History
    from leasefs.service.stream import StreamHub
    from leasefs.service.writer import LedgerWriter


@dataclass(frozen=True, slots=True)
class Ledger:
    """The parts of a running ledger. `started_at_s` is ledger time; `store` says where the log is.

    `directory` is the log's, empty if it lies nowhere. `heard_of` is when each identity was heard of last, in ledger
    time, since this server runs.
    """

    writer: LedgerWriter
    hub: StreamHub
    started_at_s: float
    store: str
    own_uid: int
    directory: str = ""
    meters: Meters = field(default_factory=Meters)
    heard_of: dict[str, float] = field(default_factory=dict)
    limiter: Limiter = field(default_factory=Limiter)
    health: Health = field(init=False)
    compactor: Compactor = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        object.__setattr__(self, "health", Health(self.writer, self.directory))
        object.__setattr__(self, "compactor", Compactor(self.hub.store, self.hub))
        self.writer.listen(self.meters.events.heard)

    @property
    def history(self) -> History:
        """The log's past."""
        return self.hub.history

    @property
    def state(self) -> State:
        """The durable state: the only one that anybody is told about."""
        return self.writer.durable

    def now_s(self) -> float:
        """Ledger time."""
        return self.writer.now_s()

    async def carry_out(self, command: AnyCommand, status: int = 200) -> Answer:
        """Decide `command`, make it durable, and answer. Raises the LeasefsError that refused it."""
        return decided(await self.submit(command), status)

    def submit(self, command: AnyCommand) -> asyncio.Future[Decision]:
        """Have `command` decided and made durable, within what this ledger lets one client have."""
        return self.writer.submit(self.limiter.bounded(command))


def decided(decision: Decision, status: int = 200) -> Answer:
    """The answer that a decision gives; raises its error."""
    if decision.error is not None:
        raise decision.error
    return json_answer(status, decision.answer)


def claim_status(answer: object) -> int:
    """201 for a lease that was granted, 202 for a claim that waits, 200 for what a key was used for before."""
    state = answer.state if isinstance(answer, LeaseAnswer) else ""
    return {"granted": 201, "waiting": 202}.get(state, 200)
