"""Letting go of leases: those given back, those revoked, and those of which the ledger has still to hear."""

from __future__ import annotations

import contextlib
import logging
import math
from typing import TYPE_CHECKING

import trio

from leasefs.client.settling import Settling
from leasefs.core.errors import LeasefsError, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.client import api
    from leasefs.client.heartbeats import Heartbeats
    from leasefs.client.trust import Trust

log = logging.getLogger(__name__)

_TOLD_WITHIN_S = 10.0


class Leaving:
    """Ends leases of one session: first nothing is written under them any more, then the ledger is told."""

    def __init__(
        self,
        trust: Trust,
        heartbeats: Heartbeats,
        send: Callable[[api.Call], Awaitable[api.Body]],
        ask: Callable[[str, float], Awaitable[object]],
    ) -> None:
        """`ask` takes over what became of a claim, and waits so long for its grant."""
        self._ask = ask
        self._trust = trust
        self._heartbeats = heartbeats
        self._send = send
        # Awaited with each revoked lease before its ground opens; nothing is written under it any more then.
        self.before: Callable[[str], Awaitable[None]] | None = None
        self._untold: dict[str, api.Call] = {}
        self._stays: dict[str, None] = {}
        # Of what is given back and may not have reached the ledger; set when it has.
        self._told: dict[str, trio.Event] = {}
        self._settling = Settling(self._tell_and_ask, "what became of leases that were given back")
        self._leaving, self._to_leave = trio.open_memory_channel[str](math.inf)

    async def release(self, lease_id: str, call: api.Call) -> api.Body:
        """Give a lease back by this call: nothing is written under it from this moment, whatever the ledger says.

        Raises:
            LedgerUnavailable: if the ledger is away; it is told when it is back.
            LeasefsError: what the ledger refused.
        """
        # Also of a claim that waits: the news of its grant may come after the grant of the next one.
        was_held, known = self._trust.lease(lease_id) is not None, self._trust.why_ended(lease_id)
        self._trust.lost(lease_id, "released")
        self._told.setdefault(lease_id, trio.Event())
        try:
            return await self._send(call)
        except LedgerUnavailable as error:
            self._untold[lease_id] = call
            self._settling.wake()
            raise LedgerUnavailable(
                f"nothing is written under {lease_id} any more, but the ledger could not be told: "
                f"{error.message}; it will be when it is back",
                **error.details,
            ) from error
        except LeasefsError:
            if not was_held and known is None:
                self._stays[lease_id] = None
                self._settling.wake()
            raise
        finally:
            if lease_id not in self._untold:
                self._is_told(lease_id)

    async def reached_ledger(self, lease_id: str) -> bool:
        """Wait until the ledger has heard of a release that is on its way; False if none is, or that takes long."""
        told = self._told.get(lease_id)
        if told is None:
            return False
        with trio.move_on_after(_TOLD_WITHIN_S):
            await told.wait()
        return told.is_set()

    def _is_told(self, lease_id: str) -> None:
        told = self._told.pop(lease_id, None)
        if told is not None:
            told.set()

    async def tell(self) -> None:
        """Tell the ledger of the leases that were given back while it was away."""
        with contextlib.suppress(LedgerUnavailable):
            await self._tell()

    async def _tell(self) -> None:
        for lease_id, call in list(self._untold.items()):
            try:
                await self._send(call)
            except LedgerUnavailable:
                raise
            except LeasefsError as error:
                log.info("%s needs no release any more: %s", lease_id, error.message)
            self._untold.pop(lease_id, None)
            self._is_told(lease_id)

    def heard_revoked(self, lease_id: str) -> None:
        """Of our own event; the lease is not trusted any more."""
        if self.before is None:
            self._heartbeats.drop(lease_id)
        else:
            self._leaving.send_nowait(lease_id)

    async def run(self) -> None:
        """Let go of leases, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._settling.run)
            nursery.start_soon(self._leave_revoked)

    async def _tell_and_ask(self) -> None:
        await self._tell()
        for lease_id in list(self._stays):
            self._trust.not_over(lease_id)
            try:
                await self._ask(lease_id, 0.0)
            except LedgerUnavailable:
                raise
            except LeasefsError as error:
                log.info("%s waits no more: %s", lease_id, error.message)
            self._stays.pop(lease_id, None)

    async def _leave_revoked(self) -> None:
        """One after the other, once what was done under them is safe (P9)."""
        async for lease_id in self._to_leave:
            if self.before is not None:
                await self.before(lease_id)
            self._heartbeats.drop(lease_id)
