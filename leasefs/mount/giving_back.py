"""Leases of this mount that nobody knows of, or that nobody wants any more, are given back.

A claim is made by a program that may die before it hears of the grant: killed while it waited in the
queue, say. The mount's session lives on, so the ledger cannot know; the ground would be held for nobody,
and everybody behind would wait for it. So a claim made through the control socket is watched until
somebody has heard that it was granted, and given back when nobody asks about it any more.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

import trio

from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.client.lessee import Lessee

log = logging.getLogger(__name__)

# More leases than these are not remembered with their claims; the oldest go first.
LEASES_REMEMBERED = 4096
# A lease that was claimed as often as this is not for a run to give back.
CLAIMS_REMEMBERED = 64
# Whoever waits asks again at once when an answer came; this is for a machine under load.
UNASKED_S = 60.0
LOOK_EVERY_S = 2.0


class GivingBack:
    """Watches claims until their grant is heard. All of it on the trio thread."""

    def __init__(self, lessee: Lessee) -> None:
        self._lessee = lessee
        self._asked_at_s: dict[str, float] = {}
        self._askers: dict[str, int] = {}
        self._woken = trio.Event()

    def made(self, lease_id: str) -> None:
        """The claim was made, and its maker has still to hear of the grant."""
        self._asked_at_s[lease_id] = self._lessee.now_s()
        self._woken.set()

    @contextlib.contextmanager
    def asking(self, lease_id: str) -> Iterator[None]:
        """Somebody waits for news of the claim, as long as the context lasts."""
        self._askers[lease_id] = self._askers.get(lease_id, 0) + 1
        try:
            yield
        finally:
            self._askers[lease_id] -= 1
            if not self._askers[lease_id]:
                del self._askers[lease_id]
            if lease_id in self._asked_at_s:
                self._asked_at_s[lease_id] = self._lessee.now_s()

    def known(self, lease_id: str) -> None:
        """Its maker has heard what became of it, or it is over."""
        self._asked_at_s.pop(lease_id, None)

    def unheard(self, lease_id: str) -> None:
        """Its maker went away before it heard."""
        if lease_id in self._asked_at_s:
            self._asked_at_s[lease_id] = float("-inf")
            self._woken.set()

    async def run(self) -> None:
        """Give back what is due, for ever."""
        while True:
            if not self._asked_at_s:
                await self._woken.wait()
            self._woken = trio.Event()
            for lease_id in self._due():
                await self._give_back(lease_id)
            with trio.move_on_after(LOOK_EVERY_S):
                await self._woken.wait()

    def _due(self) -> list[str]:
        latest_s = self._lessee.now_s() - UNASKED_S
        return [
            lease_id
            for lease_id, asked_at_s in self._asked_at_s.items()
            if asked_at_s <= latest_s and lease_id not in self._askers
        ]

    async def _give_back(self, lease_id: str) -> None:
        try:
            latest = self._lessee.recalls.latest(lease_id)
            await self._lessee.release(latest, new_key(), dirty="keep")
        except LedgerUnavailable:
            return  # again at the next look
        except LeasefsError as error:
            log.info("%s needs not be given back: %s", lease_id, error.message)
        else:
            log.warning("%s is given back: whoever claimed it is gone", lease_id)
        self.known(lease_id)


class Wanted:
    """Which claims, by their keys, led to a lease: claiming again what is held already renews it.

    So that `leasefs run`, which gives back what it claimed, does not take it from another run or from
    somebody who claimed the same.
    """

    def __init__(self) -> None:
        self._keys: dict[str, set[str]] = {}

    def by(self, lease_id: str, key: str) -> None:
        """The claim with this key led to the lease."""
        keys = self._keys.setdefault(lease_id, set())
        if len(keys) < CLAIMS_REMEMBERED:
            keys.add(key)
        if len(self._keys) > LEASES_REMEMBERED:
            del self._keys[next(iter(self._keys))]

    def without(self, lease_id: str, key: str) -> bool:
        """Whether another claim than this one, which is done with now, led to the lease."""
        keys = self._keys.get(lease_id, set())
        keys.discard(key)
        if not keys:
            self._keys.pop(lease_id, None)
        return bool(keys)
