"""Letting go of leases: those given back, those revoked, and those of which the ledger has still to hear."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import trio

from leasefs.core.errors import LeasefsError, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.client import api
    from leasefs.client.heartbeats import Heartbeats
    from leasefs.client.trust import Trust

log = logging.getLogger(__name__)


class Leaving:
    """Ends leases of one session: first nothing is written under them any more, then the ledger is told."""

    def __init__(
        self,
        trust: Trust,
        heartbeats: Heartbeats,
        send: Callable[[api.Call], Awaitable[api.Body]],
    ) -> None:
        self._trust = trust
        self._heartbeats = heartbeats
        self._send = send
        # Awaited with each revoked lease before its ground opens; nothing is written under it any more then.
        self.before: Callable[[str], Awaitable[None]] | None = None
        self._untold: dict[str, api.Call] = {}
        self._leaving, self._to_leave = trio.open_memory_channel[str](math.inf)

    async def release(self, lease_id: str, call: api.Call) -> api.Body:
        """Give a lease back by this call: nothing is written under it from this moment, whatever the ledger says.

        Raises:
            LedgerUnavailable: if the ledger is away; it is told when it is back.
            LeasefsError: what the ledger refused.
        """
        if self._trust.lease(lease_id) is not None:
            self._trust.lost(lease_id, "released")
        try:
            return await self._send(call)
        except LedgerUnavailable as error:
            if self._trust.why_ended(lease_id) is not None:
                self._untold[lease_id] = call
            raise LedgerUnavailable(
                f"nothing is written under {lease_id} any more, but the ledger could not be told: "
                f"{error.message}; it will be when it is back",
                **error.details,
            ) from error

    async def tell(self) -> None:
        """Tell the ledger of the leases that were given back while it was away."""
        for lease_id, call in list(self._untold.items()):
            try:
                await self._send(call)
            except LedgerUnavailable:
                return
            except LeasefsError as error:
                log.info("%s needs no release any more: %s", lease_id, error.message)
            self._untold.pop(lease_id, None)

    def heard_revoked(self, lease_id: str) -> None:
        """Of our own event; the lease is not trusted any more."""
        if self.before is None:
            self._heartbeats.drop(lease_id)
        else:
            self._leaving.send_nowait(lease_id)

    async def run(self) -> None:
        """Let go of revoked leases, one after the other, once what was done under them is safe (P9), for ever."""
        async for lease_id in self._to_leave:
            if self.before is not None:
                await self.before(lease_id)
            self._heartbeats.drop(lease_id)
