"""How leases and waiting claims end, and who has to hear of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.events import Expired, Recalled, RecallEnded, Withdrawn
from leasefs.core.records import replace

if TYPE_CHECKING:
    from leasefs.core.draft import Draft
    from leasefs.core.records import Claim, Lease
    from leasefs.core.state import State


def returns_to(state: State, lease: Lease) -> str:
    """The session that gets a delegated part back when it ends; empty if it was no part."""
    parent = state.leases.get(lease.claim.parent)
    return parent.claim.session if parent is not None else ""


def expire(draft: Draft, lease: Lease, reason: str) -> None:
    """A lease ends against its holder's wish: its token is fenced."""
    # As it is now: what it was carved out of may have ended a moment ago, in this very decision.
    back = returns_to(draft.state, draft.state.leases[lease.id])
    draft.emit(Expired(lease.id, lease.claim.agent, lease.token, reason, returns_to=back))


def withdraw(draft: Draft, claim: Claim, reason: str, key: str = "", request: str = "") -> None:
    """A waiter leaves the queue."""
    draft.emit(Withdrawn(claim.id, claim.agent, reason, key, request))
    asks_no_more(draft, claim)


def asks_no_more(draft: Draft, claim: Claim) -> None:
    """A waiter is gone: what was recalled for it alone may be kept by its holders."""
    if claim.recall_within_s is None:
        return
    for id_ in sorted(draft.state.recalled):
        recall = draft.state.leases[id_].recall
        if recall is not None and claim.id in recall.claims:
            left = tuple(one for one in recall.claims if one != claim.id)
            asked_by(draft, id_, left, f"{claim.id} of {claim.agent} does not wait any more")


def asked_by(draft: Draft, lease_id: str, left: tuple[str, ...], why: str) -> None:
    """Of those that a lease was recalled for only these are left. What is revoked stays so."""
    lease = draft.state.leases[lease_id]
    recall = lease.recall
    if recall is None or lease.revoked_by or left == recall.claims:
        return
    agent, token = lease.claim.agent, lease.token
    if left:
        draft.emit(Recalled(lease_id, agent, token, replace(recall, claims=left)))
    else:
        draft.emit(RecallEnded(lease_id, agent, token, why))


def kept(state: State, owned: Claim) -> str:
    """What a history says of work under a lease that ends: it stays its agent's, or there is none."""
    work = state.uncommitted.work(owned.territory, owned.id, owned.agent)
    return "kept" if work is not None and work.dirty else ""
