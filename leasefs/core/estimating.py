"""How long a claim may wait, told from how long leases were held (P7).

An estimate uses the most specific hold times that are enough (`leasefs.core.holds`). A time is never made up: with too few
to go by, or a holder that has held longer than any before, it is unknown.
"""

from __future__ import annotations

from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.holds import hold_keys
from leasefs.core.queue import conflicting_leases, preceding_waiters, rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.records import Claim, Lease
    from leasefs.core.state import State

# Fewer hold times than this say nothing about an agent or a part; of a territory any say something.
_ENOUGH = 4
# With more in the queue than this they are taken as if each waited for the one before.
_EXACT_WAITERS = 48


class Estimate(NamedTuple):
    """Seconds until a claim is granted: the middle, and a quarter of past cases below and above.

    `holds` counts the hold times that the least known of its blockers was judged by.
    """

    eta_s: float
    low_s: float
    high_s: float
    holds: int


def estimate(state: State, claim: Claim, now_s: float) -> Estimate | None:
    """How long `claim` still waits, or None if there is nothing to tell it from."""
    if claim.territory not in state.holds:
        return None
    ahead = _ahead(state, claim)
    if len(ahead) > _EXACT_WAITERS:
        return _one_after_the_other(state, claim, ahead, now_s)
    known: dict[str, Estimate | None] = {}
    for waiter in [*ahead, claim]:
        known[waiter.id] = _start(state, waiter, known, now_s)
    return known[claim.id]


def _ahead(state: State, claim: Claim) -> list[Claim]:
    """The waiters that must be served before `claim` can be, and those before them, in their order."""
    found: dict[str, Claim] = {}
    untried = [claim]
    while untried:
        for waiter, _ in preceding_waiters(state, untried.pop()):
            if waiter.id not in found:
                found[waiter.id] = waiter
                untried.append(waiter)
        if len(found) > _EXACT_WAITERS:
            direct = [waiter for waiter, _ in preceding_waiters(state, claim)]
            return sorted(direct, key=rank) if len(direct) > _EXACT_WAITERS else _in_order(found)
    return _in_order(found)


def _in_order(found: dict[str, Claim]) -> list[Claim]:
    return sorted(found.values(), key=rank)


def _start(
    state: State, claim: Claim, known: dict[str, Estimate | None], now_s: float
) -> Estimate | None:
    """When this claim can be granted: after the last of those it waits for."""
    ends: list[Estimate | None] = [
        _remaining(state, lease, now_s)
        for lease, _ in conflicting_leases(state, claim)
        if not lease.lapsed(now_s)
    ]
    ends += [
        _added(known.get(waiter.id), _typical(state, waiter))
        for waiter, _ in preceding_waiters(state, claim)
    ]
    return _latest(ends)


def _one_after_the_other(
    state: State, claim: Claim, ahead: list[Claim], now_s: float
) -> Estimate | None:
    alone = _latest(
        [
            _remaining(state, lease, now_s)
            for lease, _ in conflicting_leases(state, claim)
            if not lease.lapsed(now_s)
        ]
    )
    for waiter in ahead:
        alone = _added(alone, _typical(state, waiter))
    return alone


def _latest(ends: list[Estimate | None]) -> Estimate | None:
    sure = [end for end in ends if end is not None]
    if len(sure) < len(ends):
        return None
    if not sure:
        return Estimate(0.0, 0.0, 0.0, 0)
    return Estimate(
        max(end.eta_s for end in sure),
        max(end.low_s for end in sure),
        max(end.high_s for end in sure),
        min(end.holds for end in sure),
    )


def _added(begins: Estimate | None, lasts: Estimate | None) -> Estimate | None:
    if begins is None or lasts is None:
        return None
    holds = min(begins.holds or lasts.holds, lasts.holds)
    return Estimate(
        begins.eta_s + lasts.eta_s, begins.low_s + lasts.low_s, begins.high_s + lasts.high_s, holds
    )


def _remaining(state: State, lease: Lease, now_s: float) -> Estimate | None:
    """How much longer it is held, from those holds that lasted longer than it has by now."""
    if lease.revoked_by:
        left_s = lease.expires_at_s - now_s
        return Estimate(left_s, 0.0, left_s, 1)
    held_s = now_s - lease.granted_at_s
    for samples in _samples(state, lease.claim):
        longer = [sample - held_s for sample in samples if sample > held_s]
        if longer:
            return _until_recall(_spread(longer), lease, now_s)
    if lease.recall is not None:
        left_s = max(0.0, lease.recall.deadline_s - now_s)
        return Estimate(left_s, 0.0, left_s, 1)
    return None


def _until_recall(left: Estimate, lease: Lease, now_s: float) -> Estimate:
    if lease.recall is None:
        return left
    most_s = max(0.0, lease.recall.deadline_s - now_s)
    return Estimate(
        min(left.eta_s, most_s), min(left.low_s, most_s), min(left.high_s, most_s), left.holds
    )


def _typical(state: State, claim: Claim) -> Estimate | None:
    for samples in _samples(state, claim):
        return _spread(list(samples))
    return None


def _samples(state: State, claim: Claim) -> Iterator[tuple[float, ...]]:
    """What is remembered, the most specific first."""
    for key in hold_keys(claim):
        samples = state.holds.get(key, ())
        if len(samples) >= (1 if key == claim.territory else _ENOUGH):
            yield samples


def _spread(samples: list[float]) -> Estimate:
    if len(samples) < _ENOUGH:
        return Estimate(median(samples), min(samples), max(samples), len(samples))
    low_s, middle_s, high_s = quantiles(samples, n=4, method="inclusive")
    return Estimate(middle_s, low_s, high_s, len(samples))
