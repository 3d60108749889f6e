"""What callers may ask about the log itself: query strings and bodies, as in `requests`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from leasefs.core.errors import InvalidRequest
from leasefs.core.intents import IntentState  # noqa: TC001 -- msgspec reads it
from leasefs.core.views import WantedIntents
from leasefs.service.requests import Body, Line, Name, Query, Seq, WallTime
from leasefs.service.requests_trees import MAX_INTENTS
from leasefs.service.retention import Retention

PARTS = frozenset({"sessions", "leases", "waiters", "intents"})


class HistoryQuery(Query, frozen=True):
    """A time of the wall clock, in seconds since the epoch."""

    wall_s: WallTime | None = None


class CompactionBody(Body, frozen=True):
    """What is kept of the log: so many events, those of so many seconds, so many bytes; null is no bound."""

    keep_events: Seq | None = None
    keep_s: Annotated[float, Meta(ge=0.0, le=1e10)] | None = None
    keep_bytes: Seq | None = None

    def keep(self) -> Retention:
        """As the compactor takes it: of what an operator drops by hand nothing is too young."""
        return Retention(self.keep_events, self.keep_s, self.keep_bytes, young_s=0.0)


class PastQuery(Query, frozen=True):
    """Of which territory, and which `parts` (comma-separated; all if empty). The others narrow the intents down."""

    territory: Name | None = None
    parts: Line = ""
    agent: Name | None = None
    lease: Name | None = None
    state: IntentState | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_INTENTS)] = MAX_INTENTS

    def wanted(self) -> frozenset[str]:
        """The parts. Raises InvalidRequest."""
        named = frozenset(filter(None, self.parts.split(",")))
        if not named <= PARTS:
            unknown = ", ".join(sorted(named - PARTS))[:200]
            raise InvalidRequest(
                f"no such part: {unknown}; there are {', '.join(sorted(PARTS))}", field="parts"
            )
        return named or PARTS

    def intents(self) -> WantedIntents:
        """As the views take it."""
        return WantedIntents(self.territory, self.agent, None, self.lease, self.state)
