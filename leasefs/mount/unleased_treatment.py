"""What one mount does about changes that no lease covers, put together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from leasefs.mount.errnos import Refusal
from leasefs.mount.unleased_claims import UnleasedClaims
from leasefs.mount.unleased_leases import WriteLeases
from leasefs.mount.unleased_observe import Observing
from leasefs.mount.unleased_share import share_of

if TYPE_CHECKING:
    from leasefs.client.lessee import Lessee
    from leasefs.mount.gate import Gate
    from leasefs.mount.releasing import ReleaseGate
    from leasefs.mount.unleased_policy import Settings
    from leasefs.mount.work import Work


class Unleased:
    """The mount's unleased policy at work."""

    def __init__(
        self, settings: Settings, lessee: Lessee, work: Work, releases: ReleaseGate
    ) -> None:
        self._settings = settings
        self._work = work
        self._now_s = lessee.now_s
        self._claims: UnleasedClaims | None = None
        if settings.policy.claims or settings.policy.waits:
            leases = WriteLeases(
                lessee,
                settings,
                releases.give_up,
                lambda token: bool(work.intents.dirty_of(token)),
            )
            self._claims = UnleasedClaims(
                lessee, settings, leases, work.intents.is_dirty, partial(share_of, work.tree)
            )

    async def run(self) -> None:
        """Do what no request waits for, for ever."""
        if self._claims is not None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._claims.run)
                nursery.start_soon(self._claims.leases.run)

    def treat(self, gate: Gate) -> None:
        """Tell the gate."""
        gate.obtainer = self._claims
        if self._settings.policy.observes:
            gate.observer = Observing(
                lambda refused, pid: gate.refusals.add(Refusal(refused), pid, observed=True),
                self._work.observed,
                self._now_s,
            )

    def claimed_on_purpose(self, lease_id: str) -> None:
        """Somebody claimed this lease by name: it is not for the mount to give back."""
        if self._claims is not None:
            self._claims.leases.taken_over(lease_id)

    async def take_back(self, paths: list[bytes]) -> None:
        """Claim again what was changed here at these paths, if writes claim here at all."""
        if self._claims is not None:
            await self._claims.take_back(paths)

    def facts(self) -> dict[str, Any]:
        """For `mount.json`."""
        policy, settings = self._settings.policy, self._settings
        facts: dict[str, Any] = {"policy": policy.word}
        if policy.waits:
            facts["wait_s"] = settings.wait_s
        if policy.claims:
            facts |= {
                "regions": list(settings.regions.texts),
                "idle_s": settings.idle_s,
                "ttl_s": settings.ttl_s,
                "uncommitted": "keep" if settings.keeps else "lapse",
            }
        return facts
