"""What operators do meanwhile. No faults, and not counted as such."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from chaos_runs.nemeses.nemesis import Nemesis
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


class OperatorsAct(Nemesis):
    """No fault: it is not counted as one."""

    is_fault = False


class AboutALease(OperatorsAct):
    """Something is asked of the ledger about a lease that somebody has."""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """The ledger may be away."""
        with contextlib.suppress(LeasefsError):
            lease = _some_lease(storm, dice)
            if lease:
                _link(storm).send(self._call(lease, dice))
                with storm.fault(self.kind, lease):
                    pass

    def _call(self, lease: str, dice: random.Random) -> api.Call:
        raise NotImplementedError


class Recall(AboutALease):
    """An operator asks for a lease."""

    def _call(self, lease: str, dice: random.Random) -> api.Call:
        within_s = dice.choice([0.0, 1.0, 3.0])
        return api_scheduling.recall(lease, within_s=within_s, reason="chaos", by=_BY)


class Revoke(AboutALease):
    """An operator ends a lease."""

    def _call(self, lease: str, dice: random.Random) -> api.Call:
        return api.revoke(lease, by=_BY)


class FrozenGround(OperatorsAct):
    """An operator lets nobody write somewhere for a while. It ends by itself if the ledger is away then."""

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
