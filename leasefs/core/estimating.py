"""How long a claim may wait, told from how long leases were held (P7).

An estimate uses the most specific hold times that are enough (`leasefs.core.holds`). A time is never made up: with too few
to go by, or a holder that has held longer than any before, it is unknown, unless a deadline bounds it.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.admission import hold_ends_at_s
from leasefs.core.holds import PRESSED, WANTED, hold_keys, wanted_from_s
from leasefs.core.queue import conflicting_leases, lines_before, preceding_waiters, rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.core.queue import Line
    from leasefs.core.records import Claim, Lease
    from leasefs.core.state import State

# Fewer hold times than this say nothing about an agent or a part; of a territory any say something.
_ENOUGH = 4
# With more in the queue than this they are taken as if each waited for the one before.
_EXACT_WAITERS = 48
# What a lease that has come to its cap is given to yield (`leasefs.core.recalling`).
_AFTER_CAP_S = 60.0
# A freeze without an end has one so far away that it is none.
_NO_END_S = 10 * 365 * 24 * 3600.0


class Estimate(NamedTuple):
    """Seconds until a claim is granted: the middle, and a quarter of past cases below and above.

    `holds` counts the hold times that the least known of its blockers was judged by; 0 if deadlines alone say it.
    """

    eta_s: float
    low_s: float
    high_s: float
    holds: int


AT_ONCE = Estimate(0.0, 0.0, 0.0, 0)
# When each waiter's own lease may end, by its id; None: unknown.
_Ends = dict[str, Estimate | None]


def estimate(
    state: State, claim: Claim, now_s: float, lines: list[Line] | None = None
) -> Estimate | None:
    """How long `claim` still waits, or None if there is nothing to tell it from; `lines` stand before it, if known."""
    lines = lines_before(state, claim) if lines is None else lines
    if not lines:
        return after_holders(state, claim, now_s)
    ahead = _ahead(state, [waiter for line in lines for waiter in line.waiters])
    if len(ahead) > _EXACT_WAITERS:
        begins = after_holders(state, claim, now_s)
        for waiter in ahead:
            if begins is None:
                return None
            begins = and_then(state, begins, waiter)
        return begins
    ends: _Ends = {}
    for waiter in ahead:
        begins = _start(state, waiter, lines_before(state, waiter), ends, now_s)
        ends[waiter.id] = and_then(state, begins, waiter)
    return _start(state, claim, lines, ends, now_s)


def _ahead(state: State, direct: list[Claim]) -> list[Claim]:
    """Those that must be served before, in their order, and those before them unless they are many."""
    found, untried = {waiter.id: waiter for waiter in direct}, deque(direct)
    while untried and len(found) <= _EXACT_WAITERS:
        for waiter in preceding_waiters(state, untried.popleft()):
            if waiter.id not in found:
                found[waiter.id] = waiter
                untried.append(waiter)
    many = len(found) > _EXACT_WAITERS and len(direct) > _EXACT_WAITERS
    return sorted(direct if many else found.values(), key=rank)


def _start(
    state: State, claim: Claim, lines: Iterable[Line], ends: _Ends, now_s: float
) -> Estimate | None:
    """When this claim can be granted: after the last of those it waits for, of which `ends` are known."""
    begins = after_holders(state, claim, now_s)
    for line in lines:
        for waiter in line.waiters:
            begins = later(begins, ends.get(waiter.id))
    return begins


def and_then(state: State, begins: Estimate | None, claim: Claim) -> Estimate | None:
    """When a claim that `begins` to be held then may be given back."""
    return _added(begins, _typical(state, claim))


def after_holders(state: State, claim: Claim, now_s: float) -> Estimate | None:
    """When the last of those that hold its ground may end."""
    begins: Estimate | None = AT_ONCE
    for lease, _ in conflicting_leases(state, claim):
        if not lease.lapsed(now_s):
            begins = later(begins, _remaining(state, lease, now_s))
    return begins


def later(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """The later of two, which is unknown if one is."""
    if one is None or other is None:
        return None
    return Estimate(
        max(one.eta_s, other.eta_s),
        max(one.low_s, other.low_s),
        max(one.high_s, other.high_s),
        _fewer(one.holds, other.holds),
    )


def _added(begins: Estimate | None, lasts: Estimate | None) -> Estimate | None:
    if begins is None or lasts is None:
        return None
    return Estimate(
        begins.eta_s + lasts.eta_s,
        begins.low_s + lasts.low_s,
        begins.high_s + lasts.high_s,
        _fewer(begins.holds, lasts.holds),
    )


def _fewer(one: int, other: int) -> int:
    """The smaller number of hold times; what rests on none does not count."""
    return min(one, other) if one and other else one or other


def _remaining(state: State, lease: Lease, now_s: float) -> Estimate | None:
    """How much longer it is held, from those holds that lasted longer than it has by now."""
    if lease.revoked_by:
        left_s = lease.expires_at_s - now_s
        return Estimate(left_s, 0.0, left_s, 0)
    most_s = _at_most(state, lease, now_s)
    if not lease.claim.frozen_by:
        wanted_s = wanted_from_s(state, lease)
        by_hold = _left(state, lease.claim, "", now_s - lease.granted_at_s)
        by_wish = _left(state, lease.claim, WANTED, 0.0 if wanted_s is None else now_s - wanted_s)
        sure = [one for one in (by_hold, by_wish) if one is not None]
        if sure:
            return _bounded(min(sure, key=_width_s), most_s)
    return None if most_s is None else Estimate(most_s, 0.0, most_s, 0)


def _left(state: State, claim: Claim, kind: str, passed_s: float) -> Estimate | None:
    """What is left after so long, from those of this kind that took longer."""
    for samples in _samples(state, claim, kind):
        longer = tuple(sample - passed_s for sample in samples if sample > passed_s)
        if longer:
            return _spread(longer)
    return None


def _width_s(one: Estimate) -> float:
    return one.high_s - one.low_s


def _at_most(state: State, lease: Lease, now_s: float) -> float | None:
    """By when it must be given up; None if that is open."""
    if lease.recall is not None:
        return max(0.0, lease.recall.deadline_s - now_s)
    if lease.claim.frozen_by:
        left_s = lease.expires_at_s - now_s
        return left_s if left_s < _NO_END_S else None
    capped_s = hold_ends_at_s(state, lease)
    return None if capped_s is None else max(0.0, capped_s - now_s) + _AFTER_CAP_S


def _bounded(left: Estimate, most_s: float | None) -> Estimate:
    if most_s is None:
        return left
    low_s, eta_s, high_s = (min(one, most_s) for one in (left.low_s, left.eta_s, left.high_s))
    return Estimate(eta_s, low_s, high_s, left.holds)


def _typical(state: State, claim: Claim) -> Estimate | None:
    """How long a claim is held once it is granted."""
    if claim.frozen_by:
        return Estimate(claim.ttl_s, 0.0, claim.ttl_s, 0) if claim.ttl_s < _NO_END_S else None
    for kind in (PRESSED, ""):
        for samples in _samples(state, claim, kind):
            return _spread(samples)
    return None


def _samples(state: State, claim: Claim, kind: str) -> Iterator[tuple[float, ...]]:
    """What is remembered of this kind, the most specific first."""
    if claim.territory not in state.holds:
        return
    for key in hold_keys(claim):
        samples = state.holds.get(key + kind, ())
        if len(samples) >= (1 if key == claim.territory and not kind else _ENOUGH):
            yield samples


@lru_cache(maxsize=4096)
def _spread(samples: tuple[float, ...]) -> Estimate:
    if len(samples) < _ENOUGH:
        return Estimate(median(samples), min(samples), max(samples), len(samples))
    low_s, middle_s, high_s = quantiles(samples, n=4, method="inclusive")
    return Estimate(middle_s, low_s, high_s, len(samples))
