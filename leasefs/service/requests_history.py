"""What callers may ask about the log itself: query strings and bodies, as in `requests`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from leasefs.core.errors import InvalidRequest
from leasefs.core.intents import IntentState  # noqa: TC001 -- msgspec reads it
from leasefs.core.views import WantedIntents
from leasefs.service.requests import Line, Name, Query, WallTime
from leasefs.service.requests_trees import MAX_INTENTS

PARTS = frozenset({"sessions", "leases", "waiters", "intents"})


class HistoryQuery(Query, frozen=True):
    """A time of the wall clock, in seconds since the epoch."""

    wall_s: WallTime | None = None


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
