"""Leases over a restart of their mount (`leasefs mount --keep-leases`).

Without this an orderly stop gives them back, and a mount that comes back after a crash begins with none. With it a stop
by signal leaves them to run out, so that nobody else gets the ground meanwhile, and the next mount of the agent claims
again what its former session still held. Who waited for that ground comes first: the former session ends when the new
one begins, and its leases with it. What is claimed again has a new id and a new token.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError, LedgerUnavailable
from leasefs.mount.unleased_claims import NOTE as CLAIMED_BY_A_WRITE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport

log = logging.getLogger(__name__)

_WITHIN_S = 5.0
_TRY_AGAIN_S = 1.0
_SOON_S = 0.1


class KeptLeases:
    """What the agent's former session held, to be held again."""

    def __init__(self, lessee: Lessee, transport: Transport, *, wanted: bool) -> None:
        """`wanted` False: nothing is kept, and nothing asked."""
        self._lessee = lessee
        self._transport = transport
        self._wanted = wanted
        # Whether the end was asked for by who wants the leases free (`leasefs unmount`).
        self.gives_back: Callable[[], bool] = lambda: False
        self._former: list[api.Call] = []

    @property
    def keeps(self) -> bool:
        """Whether the leases are left to run out at the end that has come."""
        return self._wanted and not self.gives_back()

    async def look(self) -> None:
        """Remember what the agent holds now, before its new session begins.

        Raises:
            LedgerUnavailable: the ledger does not answer, and then no session may begin: it would end the former one.
        """
        if not self._wanted:
            return
        identity = self._lessee.identity
        try:
            answer = await self._transport.send(api.leases(identity.territory), timeout_s=_WITHIN_S)
        except LedgerUnavailable:
            raise
        except LeasefsError as error:
            log.warning("what %s held is not known: %s", identity.agent, error)
            return
        # A part that was delegated goes back to whose it was; what lapsed was given up by not using it; what a write
        # claimed by itself the next write claims again.
        self._former = [
            _claim(lease)
            for lease in answer["leases"]
            if lease["agent"] == identity.agent
            and lease["state"] == "granted"
            and not lease.get("parent")
            and lease.get("note") != CLAIMED_BY_A_WRITE
        ]

    async def claim_again(self) -> None:
        """Claim each of them, waiting for none: what somebody else has by now is told and left."""
        while self._former:
            call = self._former[0]
            if await _told(call, self._lessee.claim(call)):
                del self._former[0]
            else:
                await trio.sleep(_TRY_AGAIN_S)

    async def hand_on(self) -> None:
        """At the end that has come: claim what there was no time for, under the same keys, for the mount after this."""
        if not self.keeps:
            return
        with trio.move_on_after(_WITHIN_S):
            for call in self._former:
                # The connection may have gone with what was cancelled.
                while not await _told(  # noqa: ASYNC110 - asked anew each time
                    call, self._transport.send(call, timeout_s=_WITHIN_S)
                ):
                    await trio.sleep(_SOON_S)


def _claim(lease: api.Body) -> api.Call:
    return api.claim(
        lease["globs"],
        key=new_key(),
        shared=lease["mode"] == "shared",
        ttl_s=lease["ttl_s"],
        priority=lease.get("priority", 0),
        note=lease.get("note", ""),
    )


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
