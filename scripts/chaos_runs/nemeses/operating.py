"""What operators do meanwhile. No faults, and not counted as such."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from leasefs.client import api, api_scheduling
from leasefs.client.blocking import Link
from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError

if TYPE_CHECKING:
    import random

    from chaos_runs.storm import Storm

_BY = "operator"


def _link(storm: Storm) -> Link:
    return Link(f"unix:{storm.ledger.socket}", timeout_s=5.0)


def _some_lease(storm: Storm, dice: random.Random) -> str:
    leases = _link(storm).send(api.leases("chaos"))["leases"]
    return str(dice.choice(leases)["lease"]) if leases else ""


class Recall:
    """An operator asks for a lease."""

    kind = "(recall)"
    weight = 1.5
    is_fault = False

    def unfit(self, storm: Storm) -> str:
        """Always possible."""
        return ""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """The ledger may be away."""
        with contextlib.suppress(LeasefsError):
            lease = _some_lease(storm, dice)
            if lease:
                within_s = dice.choice([0.0, 1.0, 3.0])
                call = api_scheduling.recall(lease, within_s=within_s, reason="chaos", by=_BY)
                _link(storm).send(call)
                with storm.fault(self.kind, lease):
                    pass


class Revoke:
    """An operator ends a lease."""

    kind = "(revoke)"
    weight = 1.5
    is_fault = False

    def unfit(self, storm: Storm) -> str:
        """Always possible."""
        return ""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """The ledger may be away."""
        with contextlib.suppress(LeasefsError):
            lease = _some_lease(storm, dice)
            if lease:
                _link(storm).send(api.revoke(lease, by=_BY))
                with storm.fault(self.kind, lease):
                    pass


class FrozenGround:
    """An operator lets nobody write somewhere for a while. It ends by itself if the ledger is away then."""

    kind = "(freeze)"
    weight = 0.5
    is_fault = False

    def unfit(self, storm: Storm) -> str:
        """Always possible."""
        return ""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """The ledger may be away."""
        with contextlib.suppress(LeasefsError):
            call = api_scheduling.freeze(
                [dice.choice(["hot/**", "log/1", "mid/**"])],
                territory="chaos",
                key=new_key(),
                reason="chaos",
                within_s=1.0,
                ttl_s=4.0,
                by=_BY,
            )
            lease = _link(storm).send(call)["lease"]
            with storm.fault(self.kind, lease):
                storm.last(dice.uniform(0.2, 2.0))
            _link(storm).send(api_scheduling.unfreeze(lease, key=new_key(), by=_BY))
