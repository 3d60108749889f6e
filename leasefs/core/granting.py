"""Granting claims: the one place where a claim becomes a lease (P1, P5, P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.admission import held_back, is_closed
from leasefs.core.ending import asks_no_more, expire, kept
from leasefs.core.events import Granted, Released
from leasefs.core.globs import globs_of
from leasefs.core.inheriting import notes_for
from leasefs.core.lease import Mode
from leasefs.core.queue import conflicting_leases, is_blocked, may_meet, rank, waiters_at
from leasefs.core.recalling import recall_for_waiters

if TYPE_CHECKING:
    from leasefs.core.draft import Draft
    from leasefs.core.globs import Glob
    from leasefs.core.records import Claim, Lease
    from leasefs.core.state import State


def take(
    draft: Draft,
    wanted: Claim,
    key: str = "",
    request: str = "",
    *,
    asked_by: str = "",
    lapsed: list[Lease] | None = None,
    left: State | None = None,
) -> None:
    """Grant `wanted`, fencing the `lapsed` leases whose ground it takes (P5); None: they are still to be found.

    `left` is how things stood when its ground became free: whoever has some of it by the same decision is handed
    the same notes. Ground of theirs, or of what it replaces, that it does not take goes to whoever waits for it.
    """
    if lapsed is None:
        lapsed = [lease for lease, _ in conflicting_leases(draft.state, wanted)]
    ended = list(lapsed)
    for lease in ended:
        reason = f"lapsed, then taken by {wanted.agent}"
        expire(draft, lease, reason)
    if wanted.replaces:
        ended += _end_replaced(draft, wanted)
    notes = notes_for(draft.state, wanted, left)
    draft.emit(Granted(wanted, key, request, notes, asked_by))
    asks_no_more(draft, wanted)
    recall_for_waiters(draft, wanted.id)
    for lease in ended:
        settle(draft, lease.claim.territory, globs_of(lease.claim.globs))


def _end_replaced(draft: Draft, wanted: Claim) -> list[Lease]:
    """End the lease that this one is instead of, if it is still there."""
    lease = draft.state.leases.get(wanted.replaces)
    if lease is None or lease.claim.session != wanted.session:
        return []
    left = kept(draft.state, lease.claim)
    reason = f"upgraded, as {wanted.id}"
    draft.emit(Released(lease.id, lease.claim.agent, lease.token, reason, left=left))
    return [lease]


def settle(draft: Draft, territory: str, globs: tuple[Glob, ...]) -> None:
    """Grant, in order, every waiter that freed ground lets through (P7).

    Where admission is limited, a place may have come free for any waiter of the territory.
    """
    state = draft.state
    if not len(state.waiters):
        return
    if territory in state.admission:
        settle_territory(draft, territory)
        return
    _serve(draft, waiters_at(state, territory, globs), state)


def is_live_again(draft: Draft, lease_id: str) -> None:
    """A lapsed lease came back: whoever waits and may recall it does, and whom its holder waits for must go on.

    While it was lapsed it filled no place of its territory.
    """
    recall_for_waiters(draft, lease_id)
    territory = draft.state.leases[lease_id].claim.territory
    if territory in draft.state.admission:
        settle_territory(draft, territory)


def settle_territory(draft: Draft, territory: str) -> None:
    """Grant, in order, every waiter of a territory that nothing holds back any more.

    Again after each round with a grant: who has a place now may wait for one that has none, and so lets it through.
    """
    granted, left = True, draft.state
    while granted:
        waiting = [claim for claim in draft.state.waiters.values() if claim.territory == territory]
        granted = _serve(draft, sorted(waiting, key=rank), left)


def _serve(draft: Draft, waiting: list[Claim], left: State) -> bool:
    granted = False
    closed = bool(waiting) and is_closed(draft.state, waiting[0].territory, draft.now_s)
    first: dict[tuple[str, ...], Claim] = {}
    for waiter in waiting:
        if waiter.id not in draft.state.waiters or (closed and waiter.mode is Mode.EXCLUSIVE):
            continue
        if _stands_behind(draft, waiter, first.get(waiter.globs)):
            continue  # in a line of a thousand only the first need be looked at
        if is_blocked(draft.state, waiter, draft.now_s):
            first[waiter.globs] = waiter
            continue
        if held_back(draft.state, waiter, draft.now_s) is None:
            take(draft, waiter, left=left)
            granted, closed = True, is_closed(draft.state, waiter.territory, draft.now_s)
    return granted


def _stands_behind(draft: Draft, waiter: Claim, earlier: Claim | None) -> bool:
    """Whether an earlier waiter for the same ground excludes this one."""
    return earlier is not None and earlier.id in draft.state.waiters and may_meet(earlier, waiter)
