"""Short words for what tests do with a lessee, and what they look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.client import api

if TYPE_CHECKING:
    from leasefs.client.lessee import Lessee
    from leasefs.testing.core_ledger import CoreLedger

KEYS = iter(range(10**9))


async def claim(lessee: Lessee, *globs: str, ttl_s: float = 30.0, wait: bool = False) -> Any:  # noqa: ANN401 -- an answer as it came
    """Claim with a key of its own; the lease id."""
    key = f"key-{next(KEYS)}"
    answer = await lessee.claim(api.claim(globs, key=key, ttl_s=ttl_s, wait=wait))
    return answer["lease"]


def held(lessee: Lessee) -> list[str]:
    """Ids of the leases in the view."""
    return [lease.lease_id for lease in lessee.view.leases]


def trusted_for_s(lessee: Lessee) -> float:
    """For how long the one lease is still trusted."""
    (lease,) = lessee.view.leases
    return lease.trusted_until_s - lessee.now_s()


def expires_in_s(ledger: CoreLedger) -> float:
    """When the ledger would expire the one lease."""
    (lease,) = ledger.state.leases.values()
    return lease.expires_at_s - ledger.clock.now_s()
