"""What the events of recall, delegation and admission do to the ledger's state.

Called by `leasefs.core.state.apply` and, like it, asks no question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from immutables import Map

from leasefs.core.keys import operated
from leasefs.core.lease import Mode
from leasefs.core.records import Admission, Claim, Lease, replace

if TYPE_CHECKING:
    from leasefs.core import events as ev
    from leasefs.core.state import State

_NO_IDS: Map[str, None] = Map()


def without(ids: Map[str, None], id_: str) -> Map[str, None]:
    """The same without this id, which may not be there."""
    return ids.delete(id_) if id_ in ids else ids


def counting(state: State, claim: Claim, change: int) -> State:
    """One live exclusive lease of the territory more, or fewer."""
    if claim.mode is not Mode.EXCLUSIVE:
        return state
    count = state.exclusive.get(claim.territory, 0) + change
    if count:
        return replace(state, exclusive=state.exclusive.set(claim.territory, count))
    return replace(state, exclusive=state.exclusive.delete(claim.territory))


def with_lease(state: State, lease: Lease, at_s: float) -> State:
    """A lease was granted; it is in the state already."""
    state = counting(state, lease.claim, 1)
    parent = lease.claim.parent
    if not parent:
        return state
    ids = state.children.get(parent, _NO_IDS).set(lease.id, None)
    return lasting_as_long_as(replace(state, children=state.children.set(parent, ids)), lease, at_s)


def without_lease(state: State, lease: Lease) -> State:
    """A lease is about to leave the state: what was carved out of it stands on its own, or in its parent."""
    if not lease.lapse_recorded:
        state = counting(state, lease.claim, -1)
    state = replace(state, recalled=without(state.recalled, lease.id))
    if lease.claim.parent:
        state = _without_child(state, lease)
    return _freeing_children(state, lease)


def _without_child(state: State, lease: Lease) -> State:
    parent = lease.claim.parent
    ids = state.children.get(parent, _NO_IDS)
    left = without(ids, lease.id)
    children = state.children
    if len(left):
        children = children.set(parent, left)
    elif parent in children:
        children = children.delete(parent)
    return replace(state, children=children)


def _freeing_children(state: State, lease: Lease) -> State:
    ids = state.children.get(lease.id, _NO_IDS)
    if not len(ids):
        return state
    leases, above = state.leases.mutate(), lease.claim.parent
    for id_ in ids:
        child = leases[id_]
        leases[id_] = replace(child, claim=replace(child.claim, parent=above))
    children = state.children.delete(lease.id)
    if above:
        children = children.set(above, children.get(above, _NO_IDS).update(ids))
    return replace(state, leases=leases.finish(), children=children)


def lasting_as_long_as(state: State, lease: Lease, at_s: float) -> State:
    """A lease is used as long as what was carved out of it is: it ends no sooner, while its holder is there.

    One that has lapsed comes back by its own holder's heartbeat only.
    """
    above = lease.claim.parent
    while above in state.leases:
        parent = state.leases[above]
        is_there = parent.claim.session in state.sessions and not parent.lapsed(at_s)
        if is_there and not parent.revoked_by and parent.expires_at_s < lease.expires_at_s:
            later = replace(parent, expires_at_s=lease.expires_at_s)
            state = replace(state, leases=state.leases.set(above, later))
        above = parent.claim.parent
    return state


def recalled(state: State, event: ev.Recalled, recorded: ev.Recorded) -> State:
    """A holder is asked to yield."""
    lease = replace(state.leases[event.lease], recall=event.recall)
    return replace(
        state,
        leases=state.leases.set(event.lease, lease),
        recalled=state.recalled.set(event.lease, None),
    )


def recall_ended(state: State, event: ev.RecallEnded, recorded: ev.Recorded) -> State:
    """A holder may keep its lease."""
    lease = replace(state.leases[event.lease], recall=None)
    return replace(
        state,
        leases=state.leases.set(event.lease, lease),
        recalled=without(state.recalled, event.lease),
    )


def downgraded(state: State, event: ev.Downgraded, recorded: ev.Recorded) -> State:
    """An exclusive lease is shared from here on, under a new token."""
    lease = state.leases[event.lease]
    if not lease.lapse_recorded:
        state = counting(state, lease.claim, -1)
    shared = replace(lease, token=recorded.seq, claim=replace(lease.claim, mode=Mode.SHARED))
    return replace(state, leases=state.leases.set(event.lease, shared))


def admission_set(state: State, event: ev.AdmissionSet, recorded: ev.Recorded) -> State:
    """The limits of a territory are these."""
    limits, admission = event.admission, state.admission
    if replace(limits, reason="", by="", version=0) != Admission():
        admission = admission.set(event.territory, replace(limits, version=recorded.seq))
    elif event.territory in admission:
        admission = admission.delete(event.territory)
    state = replace(state, admission=admission)
    return operated(state, event.key, event.request, event.territory)


def hold_set(state: State, event: ev.HoldSet, recorded: ev.Recorded) -> State:
    """One lease has a limit of its own."""
    lease = replace(state.leases[event.lease], hold_until_s=event.hold_until_s)
    state = replace(state, leases=state.leases.set(event.lease, lease))
    return operated(state, event.key, event.request, event.lease)
