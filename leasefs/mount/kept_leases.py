"""Leases over a restart of their mount (`leasefs mount --keep-leases`).

Without this an orderly stop gives them back, and a mount that comes back after a crash begins with none. With it a stop
by signal leaves them to run out, so that nobody else gets the ground meanwhile, and the next mount of the agent claims
again what its former session still held. Who waited for that ground comes first: the former session ends when the new
one begins, and its leases with it. What is claimed again has a new id and a new token. Until it is claimed it is on disk
(`kept_file`), so that whoever comes after a kill in between knows of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.core.errors import LeasefsError, LedgerUnavailable
from leasefs.mount.kept_file import Former, claim_again
from leasefs.mount.unleased_claims import NOTE as CLAIMED_BY_A_WRITE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport
    from leasefs.mount.kept_file import KeptFile

log = logging.getLogger(__name__)

_WITHIN_S = 5.0
_TRY_AGAIN_S = 1.0
_SOON_S = 0.1


class KeptLeases:
    """What the agent's former session held, to be held again."""

    def __init__(
        self,
        lessee: Lessee,
        transport: Transport,
        file: KeptFile,
        now_s: Callable[[], float],
        *,
        wanted: bool,
    ) -> None:
        """`wanted` False: nothing is kept, and nothing asked. `now_s` is CLOCK_BOOTTIME."""
        self._lessee = lessee
        self._transport = transport
        self._file = file
        self._now_s = now_s
        self._wanted = wanted
        # Whether the end was asked for by who wants the leases free (`leasefs unmount`).
        self.gives_back: Callable[[], bool] = lambda: False
        self._left: list[Former] = []
        self._former: list[Former] = []

    @property
    def keeps(self) -> bool:
        """Whether the leases are left to run out at the end that has come."""
        return self._wanted and not self.gives_back()

    async def look(self) -> None:
        """Remember what the agent holds now, before its new session begins.

        Raises:
            LedgerUnavailable: the ledger does not answer, and then no session may begin: it would end the former one.
        """
        now_s = self._now_s()
        if not self._wanted:
            self._file.write(())
            return
        self._left = self._file.read(now_s)
        held = [Former(claim_again(one), now_s + one["ttl_s"]) for one in await self._held()]
        known = {one.ground for one in held}
        self._former = held + [one for one in self._left if one.ground not in known]
        self._file.write(self._former)

    async def _held(self) -> list[api.Body]:
        identity = self._lessee.identity
        try:
            answer = await self._transport.send(api.leases(identity.territory), timeout_s=_WITHIN_S)
        except LedgerUnavailable:
            raise
        except LeasefsError as error:
            log.warning("what %s held is not known: %s", identity.agent, error)
            return []
        # A part that was delegated goes back to whose it was; what lapsed was given up by not using it; what a write
        # claimed by itself the next write claims again.
        return [
            lease
            for lease in answer["leases"]
            if lease["agent"] == identity.agent
            and lease["state"] == "granted"
            and not lease.get("parent")
            and lease.get("note") != CLAIMED_BY_A_WRITE
        ]

    def not_begun(self) -> None:
        """The new session was refused, so the former one goes on and needs nothing claimed for it."""
        if self._wanted:
            self._file.write(self._left)

    async def claim_again(self) -> None:
        """Claim each of them, waiting for none: what somebody else has by now is told and left."""
        await self._claim_all(self._lessee.claim, _TRY_AGAIN_S)

    async def hand_on(self) -> None:
        """At the end that has come: claim what there was no time for, under the same keys, for the mount after this."""
        if not self.keeps:
            self._file.write(())
            return

        def ask(call: api.Call) -> Awaitable[api.Body]:
            return self._transport.send(call, timeout_s=_WITHIN_S)

        with trio.move_on_after(_WITHIN_S):
            # The connection may have gone with what was cancelled.
            await self._claim_all(ask, _SOON_S)

    async def _claim_all(
        self, ask: Callable[[api.Call], Awaitable[api.Body]], pause_s: float
    ) -> None:
        while self._former:
            call = self._former[0].call
            if await _told(call, ask(call)):
                del self._former[0]
                self._file.write(self._former)
            else:
                await trio.sleep(pause_s)


async def _told(call: api.Call, answered: Awaitable[api.Body]) -> bool:
    """Say what came of it; False if the ledger did not answer, so that nothing is known."""
    globs = " ".join((call.body or {})["globs"])
    try:
        answer = await answered
    except LedgerUnavailable as error:
        log.info("%s is claimed again later: %s", globs, error.message)
        return False
    except LeasefsError as error:
        log.warning("%s is not held any more: %s", globs, error.message)
    else:
        log.info("%s is held again, as %s", globs, answer["lease"])
    return True
