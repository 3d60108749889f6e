"""Granting claims: the one place where a claim becomes a lease (P1, P5, P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.admission import held_back
from leasefs.core.ending import asks_no_more, expire
from leasefs.core.events import Granted, Released
from leasefs.core.globs import globs_of
from leasefs.core.inheriting import notes_for
from leasefs.core.queue import conflicting_leases, is_blocked, rank, waiters_at

if TYPE_CHECKING:
    from leasefs.core.draft import Draft
    from leasefs.core.globs import Glob
    from leasefs.core.records import Claim


def take(
    draft: Draft, wanted: Claim, key: str = "", request: str = "", *, asked_by: str = ""
) -> None:
    """Grant `wanted`, fencing the lapsed leases whose ground it takes (P5).

    Ground of theirs that it does not take goes to whoever waits for it.
    """
    fenced = [lease for lease, _ in conflicting_leases(draft.state, wanted)]
    for lease in fenced:
        reason = f"lapsed, then taken by {wanted.agent}"
        expire(draft, lease, reason)
    _end_replaced(draft, wanted)
    notes = notes_for(draft.state, wanted)
    draft.emit(Granted(wanted, key, request, notes, asked_by))
    asks_no_more(draft, wanted)
    for lease in fenced:
        settle(draft, lease.claim.territory, globs_of(lease.claim.globs))


def _end_replaced(draft: Draft, wanted: Claim) -> None:
    lease = draft.state.leases.get(wanted.replaces)
    if lease is not None and lease.claim.session == wanted.session:
        draft.emit(Released(lease.id, lease.claim.agent, lease.token, f"upgraded, as {wanted.id}"))


def settle(draft: Draft, territory: str, globs: tuple[Glob, ...]) -> None:
    """Grant, in order, every waiter that freed ground lets through (P7).

    Where admission is limited, a place may have come free for any waiter of the territory.
    """
    state = draft.state
    if territory in state.admission:
        settle_territory(draft, territory)
        return
    _serve(draft, waiters_at(state, territory, globs))


def settle_territory(draft: Draft, territory: str) -> None:
    """Grant, in order, every waiter of a territory that nothing holds back any more.

    Again after each grant: who has a place now may wait for one that has none, and so lets it through.
    """
    granted = True
    while granted:
        waiting = [claim for claim in draft.state.waiters.values() if claim.territory == territory]
        granted = _serve(draft, sorted(waiting, key=rank))


def _serve(draft: Draft, waiting: list[Claim]) -> bool:
    granted = False
    for waiter in waiting:
        still_waits = waiter.id in draft.state.waiters
        if (
            still_waits
            and not is_blocked(draft.state, waiter, draft.now_s)
            and held_back(draft.state, waiter, draft.now_s) is None
        ):
            take(draft, waiter)
            granted = True
    return granted
