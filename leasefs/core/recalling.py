"""Recalls: a holder is asked to yield by a deadline, and gets its ground back afterwards (P7).

A claim of higher priority recalls the leases in its way; an operator, a cap on how long leases are held, or the
holder of the lease that one was carved out of, may do so too. The holder yields by releasing (`again`); past the
deadline the lease is revoked, its ground still closed until its holder dropped it or its TTL is over (P3).
Either way it is claimed again for its holder in the same decision, behind those that it was recalled for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.admission import BY, MAX_REASON_LENGTH, hold_ends_at_s
from leasefs.core.draft import Decision, Draft
from leasefs.core.ending import asked_by
from leasefs.core.errors import Deadlock, InvalidRequest, LeaseLost, NotHolder, UnknownLease
from leasefs.core.events import ClaimRefused, Queued, Recalled, Revoked
from leasefs.core.globs import globs_of
from leasefs.core.keys import answered_before, fingerprint
from leasefs.core.overlap import first_overlap
from leasefs.core.queue import AGE_S, conflicting_leases, may_meet, rank, standing
from leasefs.core.records import Claim, Lease, Recall, replace
from leasefs.core.views import is_live, lease_answer
from leasefs.core.waits import cycle_through, names_of

if TYPE_CHECKING:
    from leasefs.core.commands import AskForTime, RecallLease
    from leasefs.core.state import State

MAX_WITHIN_S = 3600.0
CAP_WITHIN_S = 60.0
# More than what rounding can take from a time.
_LATER_S = 1e-3


def check_within(within_s: float) -> None:
    """Raise InvalidRequest unless a holder may be given so long."""
    if not 0.0 <= within_s <= MAX_WITHIN_S:
        raise InvalidRequest(
            f"a holder is given 0 to {MAX_WITHIN_S:g} s to yield, not {within_s:g}"
        )


def recall_for(draft: Draft, waiter: Claim) -> None:
    """Ask those to yield that hold ground which this waiter may recall, children of their leases with them."""
    if waiter.recall_within_s is None:
        return
    for lease, _ in conflicting_leases(draft.state, waiter):
        if lease.claim.priority < waiter.priority and not lease.lapsed(draft.now_s):
            _recall_one(draft, lease.id, waiter, waiter.recall_within_s)


def _recall_one(draft: Draft, lease_id: str, waiter: Claim, within_s: float) -> None:
    ground = " ".join(waiter.globs)
    what = f"{waiter.agent} claimed {ground} as {waiter.id}"
    if waiter.frozen_by:
        what = f"{waiter.frozen_by} freezes {ground} as {waiter.id}: {waiter.note}"
    _recall_tree(draft, lease_id, waiter.agent, what, within_s, waiter.id)


def recall_for_waiters(draft: Draft, lease_id: str) -> None:
    """A lease is live that was not: whoever waits and may recall it does so at once.

    It may have been granted to a claim that waited longer, or have come back after a lapse.
    """
    state = draft.state
    if not len(state.waiters):
        return
    claim = state.leases[lease_id].claim
    globs = globs_of(claim.globs)
    near = (state.waiters[id_] for id_ in state.waiting.candidates(claim.territory, globs))
    for waiter in sorted((one for one in near if one.recall_within_s is not None), key=rank):
        within_s = waiter.recall_within_s
        if (
            within_s is not None
            and claim.priority < waiter.priority
            and may_meet(claim, waiter)
            and first_overlap(globs, globs_of(waiter.globs))
        ):
            _recall_one(draft, lease_id, waiter, within_s)


def drop_idle_recalls(draft: Draft, lease_id: str) -> None:
    """A lease is shared now: who can share it asks for it no more."""
    lease = draft.state.leases[lease_id]
    if lease.recall is None or not lease.recall.claims:
        return
    waiters = (draft.state.waiters[id_] for id_ in lease.recall.claims)
    left = tuple(waiter.id for waiter in waiters if may_meet(lease.claim, waiter))
    asked_by(draft, lease_id, left, "it is shared now, as they want it")


def _recall_tree(
    draft: Draft, lease_id: str, by: str, reason: str, within_s: float, claim: str = ""
) -> None:
    for id_ in with_children(draft.state, lease_id):
        lease = draft.state.leases[id_]
        recall = _asked(lease.recall, by, reason, draft.now_s, within_s, claim)
        if not lease.revoked_by and recall != lease.recall:
            draft.emit(Recalled(id_, lease.claim.agent, lease.token, recall))


def _asked(
    before: Recall | None, by: str, reason: str, now_s: float, within_s: float, claim: str
) -> Recall:
    """A recall with one more who asks. The earliest deadline counts, the last who asks gives the words."""
    deadline_s, cold = now_s + within_s, within_s == 0.0
    claims: tuple[str, ...] = (claim,) if claim else ()
    if before is None:
        return Recall(by, reason, deadline_s, within_s, claims, cold=cold)
    # If one of the two is for no claim, it is not withdrawn with any.
    both = before.claims and claims
    claims = tuple(dict.fromkeys((*before.claims, claim))) if both else ()
    if deadline_s >= before.deadline_s:
        return replace(before, claims=claims)
    return Recall(
        by, reason, deadline_s, within_s, claims, cold=cold or before.cold, extended=before.extended
    )


def with_children(state: State, lease_id: str) -> list[str]:
    """The lease and all that was carved out of it, parents before children."""
    found = [lease_id]
    for id_ in found:
        found += sorted(state.children.get(id_, ()))
    return found


def recall(draft: Draft, command: RecallLease) -> Decision:
    """An operator, or the holder of the parent, asks for a lease. Raises UnknownLease, NotHolder."""
    check_within(command.within_s)
    lease = draft.state.leases.get(command.lease)
    if lease is None or lease.claim.frozen_by:
        raise UnknownLease(command.lease)
    if len(command.reason) > MAX_REASON_LENGTH:
        raise InvalidRequest(f"a reason has at most {MAX_REASON_LENGTH} characters")
    by = command.by or _parents_holder(draft.state, lease, command.session)
    _recall_tree(draft, lease.id, by, command.reason or "no reason given", command.within_s)
    return draft.done(lease_answer(draft.state, lease.id, draft.now_s))


def _parents_holder(state: State, lease: Lease, session: str) -> str:
    parent = state.leases.get(lease.claim.parent)
    if parent is None or parent.claim.session != session:
        raise NotHolder(lease.id, lease.claim.agent)
    return parent.claim.agent


def ask_for_time(draft: Draft, command: AskForTime) -> Decision:
    """Move the deadline of a recall, once. Raises UnknownLease, NotHolder, InvalidRequest, LeaseLost."""
    request = fingerprint("more-time", command.lease, command.extra_s)
    session = draft.state.sessions.get(command.session)
    if command.key and session and answered_before(session, command.key, request) is not None:
        return draft.done(lease_answer(draft.state, command.lease, draft.now_s))
    lease = draft.state.leases.get(command.lease)
    if lease is None:
        raise UnknownLease(command.lease)
    if lease.claim.session != command.session:
        raise NotHolder(lease.id, lease.claim.agent)
    recall = lease.recall
    if recall is None:
        raise InvalidRequest(f"{lease.id} is not recalled: there is no deadline to move")
    if lease.revoked_by:
        raise LeaseLost(lease.id, f"its deadline is over, revoked by {lease.revoked_by}")
    if recall.extended:
        raise InvalidRequest(
            f"{lease.id} was given more time already; yield within {recall.deadline_s - draft.now_s:.0f} s"
        )
    if not 0.0 < command.extra_s <= recall.within_s:
        raise InvalidRequest(
            f"{lease.id} may get up to {recall.within_s:g} s more, not {command.extra_s:g}"
        )
    later = replace(recall, deadline_s=recall.deadline_s + command.extra_s, extended=True)
    draft.emit(Recalled(lease.id, lease.claim.agent, lease.token, later, command.key, request))
    return draft.done(lease_answer(draft.state, lease.id, draft.now_s))


def overdue(draft: Draft, lease: Lease) -> bool:
    """Act on a recall's deadline, or on the cap on how long a lease is held; whether there was one to act on."""
    recall = lease.recall
    if lease.revoked_by:
        return False
    if recall is not None:
        if draft.now_s < recall.deadline_s:
            return False
        # What was carved out of it has a deadline of its own: its holder may have asked for more time.
        draft.emit(Revoked(lease.id, lease.claim.agent, lease.token, recall.by, for_recall=True))
        return True
    ends_at_s = hold_ends_at_s(draft.state, lease)
    if ends_at_s is None or draft.now_s < ends_at_s:
        return False
    held_s = draft.now_s - lease.granted_at_s
    reason = f"held for {held_s:.0f} s, as long as this territory allows"
    _recall_tree(draft, lease.id, BY, reason, CAP_WITHIN_S)
    return True


def due_at_s(state: State, lease: Lease) -> float | None:
    """When `overdue` must look at this lease; None if never."""
    if lease.revoked_by:
        return None
    return lease.recall.deadline_s if lease.recall else hold_ends_at_s(state, lease)


def come_back(draft: Draft, lease: Lease, *, wished: bool = False) -> None:
    """A recalled lease has just ended: claim it again for its holder, if that still lives, or tell it why not.

    `lease` is as it was. Nothing may be granted between its end and this. What is `wished` comes back also if the
    recall had ended before its holder could know.
    """
    state = draft.state
    session = state.sessions.get(lease.claim.session)
    if session is None or not is_live(session, draft.now_s):
        return
    if lease.claim.parent in state.leases or not (wished or lease.recall):
        return  # it went back to the lease that it was carved out of, or nobody recalled it
    again = _again(state, lease, draft.now_s, draft.next_seq)
    queued = _queued(state, again, draft.now_s)
    probe = Draft(state, draft.now_s)
    probe.emit(queued)
    cycle = cycle_through(probe.state, again.session, draft.now_s)
    if cycle is None:
        draft.emit(queued)
        return
    error = Deadlock(names_of(state, cycle))
    why = f"{lease.id} does not come back: {error.message}"
    draft.emit(
        ClaimRefused(again.session, again.agent, again.territory, again.globs, error.code, why)
    )


def _queued(state: State, claim: Claim, now_s: float) -> Queued:
    before = standing(state, claim, now_s)
    return Queued(claim, before.ids(), ahead=before.sessions())


def _again(state: State, lease: Lease, now_s: float, seq: int) -> Claim:
    """The claim anew. It keeps its place in time, but not before those that it was recalled for."""
    claim, former = lease.claim, lease.recall
    for_good = former is not None and not former.claims
    fair_s = now_s if for_good else claim.claimed_at_s
    names = former.claims if former else ()
    asked = [state.waiters[id_] for id_ in names if id_ in state.waiters]
    behind_s = max((rank(one)[0] + claim.priority * AGE_S for one in asked), default=fair_s)
    place_s = max(fair_s, behind_s + _LATER_S) if asked else fair_s
    return replace(
        claim,
        id=f"L{seq}",
        claimed_at_s=place_s,
        claimed_seq=claim.claimed_seq if place_s == claim.claimed_at_s else seq,
        resumes=lease.id,
        parent="",
        replaces="",
        recall_within_s=None,
        queued_at_s=now_s,
    )
