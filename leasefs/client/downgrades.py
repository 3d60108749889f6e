"""Sharing leases that were held alone: the writes stop first, then the ledger is asked (P1).

The lease keeps its id and gets a new token. Until an answer, or the event, tells which, the lease is shared here under
the old one; an answer that was lost is asked for again with the same key.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasefs.client import api, api_scheduling
from leasefs.client.settling import Settling
from leasefs.core.errors import LeasefsError, LedgerUnavailable, UnknownLease
from leasefs.core.lease import Mode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.client.trust import Trust

log = logging.getLogger(__name__)


class Downgrades:
    """Those of one session. Everything but the coroutines is called on the trio thread."""

    def __init__(
        self,
        trust: Trust,
        send: Callable[[api.Call], Awaitable[api.Body]],
        now_s: Callable[[], float],
    ) -> None:
        self._trust = trust
        self._send = send
        self._now_s = now_s
        # Awaited once the writes have stopped: what was done under the old token is told before it ends.
        self.before: Callable[[], Awaitable[None]] | None = None
        # Hears of each token that took another's place.
        self.moved: Callable[[int, int], None] = lambda old, new: None
        self._asked: dict[str, api.Call] = {}
        self._in_flight: set[str] = set()
        self._settling = Settling(self._learn, "what is shared")

    def in_doubt(self, lease_id: str) -> bool:
        """Whether the ledger may have given this lease a token that is not known here yet."""
        return lease_id in self._asked

    async def downgrade(self, lease_id: str, key: str) -> api.Body:
        """Share a lease; nothing is written under it from this moment (LeaseAnswer).

        Raises:
            UnknownLease: it is not held here.
            LedgerUnavailable: the ledger is away; it stays shared here until the ledger has said what it decided.
            LeasefsError: what the ledger refused; then all is as before.
        """
        lease = self._trust.lease(lease_id)
        if lease is None:
            raise UnknownLease(lease_id)
        if lease.mode is Mode.EXCLUSIVE:
            self._asked[lease_id] = api_scheduling.downgrade(lease_id, key=key)
            self._trust.set_mode(lease_id, Mode.SHARED)
        try:
            if self.before is not None:
                await self.before()
            return await self._ask(lease_id, api_scheduling.downgrade(lease_id, key=key))
        except LedgerUnavailable as error:
            raise LedgerUnavailable(
                f"nothing is written under {lease_id} any more, but whether others may share it is not known: "
                f"{error.message}; it is asked again until it is",
                **error.details,
            ) from error
        finally:
            self._settling.wake()

    async def _ask(self, lease_id: str, call: api.Call) -> api.Body:
        sent_s = self._now_s()
        self._in_flight.add(lease_id)
        try:
            answer = await self._send(call)
        except LedgerUnavailable:
            raise
        except LeasefsError:
            # It was not done, neither now nor before: the ledger remembers what it did.
            if self._asked.pop(lease_id, None) is not None:
                self._trust.set_mode(lease_id, Mode.EXCLUSIVE)
            raise
        finally:
            self._in_flight.discard(lease_id)
        self._asked.pop(lease_id, None)
        if answer["state"] == "ended":
            self._trust.lost(lease_id, "it ended")
        elif answer["mode"] == Mode.SHARED.value:
            self._follow(lease_id, answer["token"])
            self._trust.granted(answer, sent_s)
        return answer

    def heard(self, lease_id: str, former_token: int, token: int) -> None:
        """Of our own `Downgraded` event."""
        lease = self._trust.lease(lease_id)
        if lease is not None and lease.token == former_token:
            self._asked.pop(lease_id, None)
            self._follow(lease_id, token)

    def _follow(self, lease_id: str, token: int) -> None:
        lease = self._trust.lease(lease_id)
        if lease is not None and lease.token < token:
            self._trust.set_mode(lease_id, Mode.SHARED, token)
            self.moved(lease.token, token)

    def connected(self) -> None:
        """The ledger is there again: ask what it has not answered."""
        self._settling.wake()

    async def run(self) -> None:
        """Ask again for answers that were lost, for ever."""
        await self._settling.run()

    async def _learn(self) -> None:
        for lease_id, call in list(self._asked.items()):
            if self._trust.lease(lease_id) is None:
                del self._asked[lease_id]
            if lease_id in self._in_flight or lease_id not in self._asked:
                continue
            try:
                await self._ask(lease_id, call)
            except LedgerUnavailable:
                raise
            except LeasefsError as error:
                log.info("%s is not shared: %s", lease_id, error.message)
