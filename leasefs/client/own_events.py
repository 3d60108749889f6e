"""The session's own events, pushed by the ledger: what was granted, and what is over.

The stream is followed by sequence number, so nothing is missed however often the connection breaks.
It says what happened, never until when: times come from heartbeats alone (P3).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import trio

from leasefs.client import api
from leasefs.client.pauses import Pauses
from leasefs.client.sse import KEEP_ALIVE
from leasefs.core.errors import InvalidRequest, LeasefsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.client.delegations import Delegations
    from leasefs.client.downgrades import Downgrades
    from leasefs.client.heartbeats import Heartbeats
    from leasefs.client.recalls import Recalls
    from leasefs.client.transport import Transport
    from leasefs.client.trust import Trust

log = logging.getLogger(__name__)

# The ledger sends a comment every 15 s.
SILENCE_S = 50.0
_RETRY = Pauses(0.1, 2.0)
TYPES = (
    "granted",
    "queued",
    "withdrawn",
    "released",
    "claim-refused",
    "recalled",
    "recall-ended",
    "downgraded",
    "revoked",
    "expired",
    "session-ended",
    "foreign-writes",
)


class OwnEvents:
    """Follows the ledger for ever and tells trust and heartbeats what it hears."""

    def __init__(
        self,
        session: str,
        transport: Transport,
        trust: Trust,
        heartbeats: Heartbeats,
        recalls: Recalls,
        delegations: Delegations,
        downgrades: Downgrades,
        *,
        granted: Callable[[dict[str, Any], int], None],
        revoked: Callable[[str], None],
        foreign: Callable[[dict[str, Any]], None],
        wanted: Callable[[dict[str, Any]], None],
        back: Callable[[], Awaitable[None]],
        revive: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`granted` hears of claims (with their token) that became leases, `revoked` of leases that are to be dropped.

        `foreign` hears of foreign writes, those that this session reported and those on its ground; `wanted` of
        claims of others that wait for what this session holds or waits for.
        `back` is awaited at each connection made, `revive` before each attempt but the first; it may
        start a ledger, and may raise what `Transport.send` raises.
        """
        self._session = session
        self._transport = transport
        self._trust = trust
        self._heartbeats = heartbeats
        self._recalls = recalls
        self._delegations = delegations
        self._downgrades = downgrades
        self._granted = granted
        self._revoked = revoked
        self._foreign = foreign
        self._wanted = wanted
        self._back = back
        self._revive = revive
        self._attempts = 0
        self.seq = 0

    async def run(self) -> None:
        """Follow; after a break connect again, at most 2 s later. Never returns."""
        while True:
            try:
                if self._revive is not None and self._attempts:
                    await self._revive()
                await self._follow()
            except InvalidRequest as error:
                log.warning("event stream: %s", error.message)
                self.seq = 0  # the ledger has another log than before, a shorter one
            except LeasefsError as error:
                log.info("event stream: %s", error.message)
            await trio.sleep(_RETRY.after_s(self._attempts))
            self._attempts += 1

    async def _follow(self) -> None:
        call = api.follow(after=self.seq, session=self._session, types=TYPES)
        async with self._transport.stream(call, silence_s=SILENCE_S) as events:
            self._attempts = 0
            await self._back()
            async for event in events:
                self.seq = max(self.seq, event.seq)
                given_up = self._recalls.just_given_up()
                if event.type != KEEP_ALIVE:
                    self._heard(event.type, event.seq, event.data)
                self._recalls.forget_unless_it_comes_back(given_up)

    def _heard(self, type_: str, seq: int, told: dict[str, Any]) -> None:
        fact = told["event"]
        match type_:
            case "granted" if self._delegations.heard_granted(fact):
                pass
            case "granted":
                # The number of the event is the fencing token.
                self._granted(fact["claim"], seq)
            case "revoked":
                # Stop trusting first; what is said to the ledger next opens the ground.
                self._recalls.heard_revoked(fact["lease"])
                self._trust.taken(fact["lease"], f"revoked by {fact['by']}")
                self._revoked(fact["lease"])
            case "expired" | "released" if fact.get("returns_to") == self._session:
                self._delegations.heard_back(fact["lease"])
            case "downgraded":
                self._downgrades.heard(fact["lease"], fact["former_token"], seq)
            case "expired" | "released":
                self._trust.taken(fact["lease"], fact["reason"])
                self._recalls.heard_over(fact["lease"])
            case "withdrawn":
                self._trust.lost(fact["claim"], fact["reason"])
                self._recalls.heard_withdrawn(fact["claim"])
            case "session-ended":
                self._heartbeats.beat_soon()
            case "foreign-writes":
                self._foreign(fact)
            case _:
                self._heard_of_recall(type_, told)

    def _heard_of_recall(self, type_: str, told: dict[str, Any]) -> None:
        fact = told["event"]
        match type_:
            case "recalled":
                self._recalls.heard(fact, told["at_s"])
                # The event may be old; how much time is left, an answer tells.
                self._heartbeats.ask_about(fact["lease"])
            case "recall-ended":
                self._recalls.heard_end(fact["lease"])
            case "claim-refused":
                self._recalls.heard_refused(fact["message"])
            case "queued" if fact["claim"]["session"] == self._session:
                self._recalls.heard_queued(fact["claim"])
            case "queued":
                self._wanted(fact["claim"])
