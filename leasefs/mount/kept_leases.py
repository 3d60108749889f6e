"""Leases over a restart of their mount (`leasefs mount --keep-leases`).

Without this an orderly stop gives them back, and a mount that comes back after a crash begins with none. With it a stop
by signal leaves them to run out, so that nobody else gets the ground meanwhile, and the next mount of the agent claims
again what its former session still held. Who waited for that ground comes first: the former session ends when the new
one begins, and its leases with it. What is claimed again has a new id and a new token.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError
from leasefs.mount.unleased_claims import NOTE as CLAIMED_BY_A_WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport

log = logging.getLogger(__name__)

_WITHIN_S = 20.0


class KeptLeases:
    """What the agent's former session held, to be held again."""

    def __init__(self, lessee: Lessee, transport: Transport, *, wanted: bool) -> None:
        """`wanted` False: nothing is kept, and nothing asked."""
        self._lessee = lessee
        self._transport = transport
        self._wanted = wanted
        # Whether the end was asked for by who wants the leases free (`leasefs unmount`).
        self.gives_back: Callable[[], bool] = lambda: False
        self._former: list[api.Body] = []

    @property
    def keeps(self) -> bool:
        """Whether the leases are left to run out at the end that has come."""
        return self._wanted and not self.gives_back()

    async def look(self) -> None:
        """Remember what the agent holds now, before its new session begins. Never fails: then it is nothing."""
        if not self._wanted:
            return
        identity = self._lessee.identity
        try:
            answer = await self._transport.send(api.leases(identity.territory), timeout_s=_WITHIN_S)
        except LeasefsError as error:
            log.warning("what %s held is not known: %s", identity.agent, error)
            return
        # A part that was delegated goes back to whose it was; what lapsed was given up by not using it; what a write
        # claimed by itself the next write claims again.
        self._former = [
            lease
            for lease in answer["leases"]
            if lease["agent"] == identity.agent
            and lease["state"] == "granted"
            and not lease.get("parent")
            and lease.get("note") != CLAIMED_BY_A_WRITE
        ]

    async def claim_again(self) -> None:
        """Claim each of them, waiting for none: what somebody else has by now is told and left."""
        former, self._former = self._former, []
        for lease in former:
            globs = " ".join(lease["globs"])
            call = api.claim(
                lease["globs"],
                key=new_key(),
                shared=lease["mode"] == "shared",
                ttl_s=lease["ttl_s"],
                priority=lease.get("priority", 0),
                note=lease.get("note", ""),
            )
            try:
                answer = await self._lessee.claim(call)
            except LeasefsError as error:
                log.warning("%s is not held any more: %s", globs, error.message)
            else:
                log.info(
                    "%s is held again, as %s instead of %s", globs, answer["lease"], lease["lease"]
                )
