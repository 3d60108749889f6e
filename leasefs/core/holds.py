"""How long leases were held: remembered for the agent on that part of the tree, for the part, the agent, the harness, the territory.

Three things are told apart, because a holder that nobody waits for may keep what it does not use, and some give way as
soon as somebody does: how long all were held, how long those that were waited for from the first moment, and
how long it took from the first waiter to the end.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from leasefs.core.globs import globs_of
from leasefs.core.overlap import first_overlap
from leasefs.core.paths import text
from leasefs.core.queue import may_meet

if TYPE_CHECKING:
    from immutables import Map

    from leasefs.core.records import Claim, Lease
    from leasefs.core.state import State

HOLDS_REMEMBERED = 32
# Beyond this only the territories themselves are told apart, so that a log of many agents stays bounded.
KEYS_REMEMBERED = 8_192
_FAMILY_DEPTH = 2
PRESSED = "\npressed"
"""Of leases that somebody waited for from the first moment: how long they were held."""
WANTED = "\nwanted"
"""From the first waiter to the end of the lease."""


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


def wanted_from_s(state: State, lease: Lease) -> float | None:
    """Since when somebody waits for this lease, not before it was granted; None if nobody does."""
    claim = lease.claim
    globs = globs_of(claim.globs)
    ids = state.waiting.candidates(claim.territory, globs)
    for waiter in sorted((state.waiters[id_] for id_ in ids), key=_began_s):
        if may_meet(waiter, claim) and first_overlap(globs, globs_of(waiter.globs)):
            return max(_began_s(waiter), lease.granted_at_s)
    return None


def _began_s(waiter: Claim) -> float:
    return waiter.claimed_at_s if waiter.queued_at_s is None else waiter.queued_at_s


def with_hold(state: State, lease: Lease, ended_at_s: float) -> Map[str, tuple[float, ...]]:
    """The hold times with one more. A lease that lapsed was held until then, however late that was noticed."""
    claim = lease.claim
    if claim.frozen_by:
        return state.holds
    end_s = min(ended_at_s, lease.expires_at_s)
    found = [("", end_s - lease.granted_at_s)]
    wanted_s = wanted_from_s(state, lease)
    if wanted_s is not None:
        found.append((WANTED, end_s - wanted_s))
        if wanted_s == lease.granted_at_s:
            found.append((PRESSED, end_s - wanted_s))
    changed = state.holds.mutate()
    for key in hold_keys(claim):
        for kind, seconds in found:
            known = changed.get(key + kind)
            if known is not None or len(changed) < KEYS_REMEMBERED or key == claim.territory:
                changed[key + kind] = (*(known or ())[1 - HOLDS_REMEMBERED :], max(0.0, seconds))
    return changed.finish()
