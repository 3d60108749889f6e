"""How long leases were held: remembered for the agent on that part of the tree, for the part, the agent, the harness, the territory."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from leasefs.core.globs import globs_of
from leasefs.core.paths import text

if TYPE_CHECKING:
    from immutables import Map

    from leasefs.core.records import Claim, Lease

HOLDS_REMEMBERED = 32
# Beyond this only the territories themselves are told apart, so that a log of many agents stays bounded.
KEYS_REMEMBERED = 8_192
_FAMILY_DEPTH = 2


def family(claim: Claim) -> str:
    """The part of the tree that a claim is about: what its globs have in common, two components at most."""
    return _family(claim.globs)


@lru_cache(maxsize=4096)
def _family(globs: tuple[str, ...]) -> str:
    prefixes = [glob.literal_prefix[:_FAMILY_DEPTH] for glob in globs_of(globs)]
    common = prefixes[0]
    for prefix in prefixes[1:]:
        same = 0
        while same < min(len(common), len(prefix)) and common[same] == prefix[same]:
            same += 1
        common = common[:same]
    return text(b"/".join(common))


def hold_keys(claim: Claim) -> tuple[str, ...]:
    """Under what its hold time is remembered, the most specific first, the territory itself last."""
    where, part = claim.territory, family(claim)
    return (
        f"{where}\nagent\n{claim.agent}\n{part}",
        f"{where}\npart\n{part}",
        f"{where}\nagent\n{claim.agent}",
        f"{where}\nharness\n{claim.harness}",
        where,
    )


def with_hold(
    holds: Map[str, tuple[float, ...]], lease: Lease, ended_at_s: float
) -> Map[str, tuple[float, ...]]:
    """The hold times with one more. A lease that lapsed was held until then, however late that was noticed."""
    claim = lease.claim
    if claim.frozen_by:
        return holds
    held_s = max(0.0, min(ended_at_s, lease.expires_at_s) - lease.granted_at_s)
    changed = holds.mutate()
    for key in hold_keys(claim):
        known = changed.get(key)
        if known is not None or len(changed) < KEYS_REMEMBERED or key == claim.territory:
            changed[key] = (*(known or ())[1 - HOLDS_REMEMBERED :], held_s)
    return changed.finish()
