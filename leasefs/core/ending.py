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
    back = returns_to(draft.state, lease)
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
        lease = draft.state.leases[id_]
        recall = lease.recall
        if recall is None or claim.id not in recall.claims or lease.revoked_by:
            continue
        left = tuple(one for one in recall.claims if one != claim.id)
        if left:
            draft.emit(Recalled(id_, lease.claim.agent, lease.token, replace(recall, claims=left)))
        else:
            why = f"{claim.id} of {claim.agent} does not wait any more"
            draft.emit(RecallEnded(id_, lease.claim.agent, lease.token, why))
