"""Delegation: a holder gives a part of its lease to another agent, and gets it back (P1, P7).

The part is a lease of its own whose `parent` is the lease that it was carved out of: the parent's holder does not
write there while it lives. It ends by release, by lapsing, or with the parent when that is revoked. When the
parent ends otherwise, the parts stand on their own: they take nobody's ground.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core import admission
from leasefs.core.claims import check_terms, checked_globs, own_live_lease, refuse, session_of
from leasefs.core.draft import Decision, Draft
from leasefs.core.errors import (
    ClaimConflict,
    Deadlock,
    InvalidRequest,
    NotContained,
)
from leasefs.core.globs import globs_of, lies_on
from leasefs.core.granting import take
from leasefs.core.intents import OnDirty, Require
from leasefs.core.keys import answered_before, fingerprint
from leasefs.core.lease import Mode
from leasefs.core.overlap import TooComplex, first_overlap, uncovered
from leasefs.core.paths import text
from leasefs.core.queue import ancestors
from leasefs.core.records import Claim, Lease, Session
from leasefs.core.releasing import refuse_dirty, unfinished
from leasefs.core.views import is_live, lease_answer
from leasefs.core.waits import cycle_by_grant, names_of

if TYPE_CHECKING:
    from leasefs.core.commands import DelegateLease
    from leasefs.core.globs import Glob
    from leasefs.core.records import Intent
    from leasefs.core.state import State

MAX_DEPTH = 4


def delegate(draft: Draft, command: DelegateLease) -> Decision:
    """Carve a part out of a lease for another agent's live session.

    Raises:
        NotHolder, UnknownLease, LeaseLost: the caller does not hold it, or not any more.
        NotContained: the part is not wholly inside.
        InvalidRequest: the lease is shared or recalled, the depth is too great, or that agent has no session.
        ClaimConflict: a part of it was given to somebody already.
        OverCap: the other agent may have no more.
    """
    session = session_of(draft.state, command.session)
    globs = checked_globs(command.globs)
    texts = tuple(glob.text for glob in globs)
    request = fingerprint("delegate", command.lease, texts, command.to, command.ttl_s)
    before = answered_before(session, command.key, request)
    if before is not None:
        return draft.done(lease_answer(draft.state, before, draft.now_s))
    parent = _parent(draft, session, command.lease)
    _check_inside(parent, globs)
    _check_free(draft.state, parent, globs)
    child = _child(draft, command, parent, texts)
    admission.check_caps(draft.state, child, 0.0)
    dirty = dirty_on(draft.state, parent, tuple(globs))
    if dirty and command.on_dirty is OnDirty.REFUSE:
        return refuse_dirty(draft, parent.claim, dirty, "committed")
    return _give(draft, child, session, command.key, request)


def _parent(draft: Draft, session: Session, lease_id: str) -> Lease:
    lease = own_live_lease(draft, session, lease_id)
    if lease.claim.mode is not Mode.EXCLUSIVE:
        raise InvalidRequest(f"{lease_id} is shared: whoever wants to share it claims it itself")
    if lease.recall is not None:
        raise InvalidRequest(f"{lease_id} is recalled by {lease.recall.by}: give it up instead")
    if len(ancestors(draft.state, lease.claim)) + 1 >= MAX_DEPTH:
        raise InvalidRequest(
            f"{lease_id} was itself delegated {MAX_DEPTH - 1} times over, which is the most"
        )
    return lease


def _check_inside(parent: Lease, globs: list[Glob]) -> None:
    """Delegation never widens; what cannot be decided cheaply is taken as not inside."""
    own = globs_of(parent.claim.globs)
    for glob in globs:
        try:
            witness = uncovered(glob, own)
        except TooComplex:
            raise NotContained(parent.id, glob.text, "(too costly to decide)") from None
        if witness is not None:
            raise NotContained(parent.id, glob.text, text(witness))


def _check_free(state: State, parent: Lease, globs: list[Glob]) -> None:
    for id_ in state.held.candidates(parent.claim.territory, globs):
        lease = state.leases[id_]
        if id_ == parent.id or id_ in ancestors(state, parent.claim):
            continue
        met = first_overlap(globs, globs_of(lease.claim.globs))
        if met is None:
            continue
        if lease.claim.session == parent.claim.session:
            raise InvalidRequest(
                f"{met[0].text} overlaps {met[1].text} of your lease {id_} too, both match {text(met[2])!r}; release that "
                "one first, or you would still write there"
            )
        raise ClaimConflict(
            f"{met[0].text} overlaps {met[1].text}, both match {text(met[2])!r}; held by {lease.claim.agent} as {id_}",
            blockers=[],
        )


def _child(draft: Draft, command: DelegateLease, parent: Lease, texts: tuple[str, ...]) -> Claim:
    ttl_s = parent.claim.ttl_s if command.ttl_s is None else command.ttl_s
    check_terms(ttl_s, parent.claim.priority, command.note)
    to = _session_of_agent(draft, parent, command.to)
    return Claim(
        id=f"L{draft.next_seq}",
        territory=parent.claim.territory,
        session=to.id,
        agent=to.agent,
        harness=to.harness,
        globs=texts,
        mode=Mode.EXCLUSIVE,
        ttl_s=ttl_s,
        priority=parent.claim.priority,
        claimed_at_s=draft.now_s,
        claimed_seq=draft.next_seq,
        note=command.note,
        parent=parent.id,
    )


def _session_of_agent(draft: Draft, parent: Lease, agent: str) -> Session:
    id_ = draft.state.by_agent.get((parent.claim.territory, agent))
    session = draft.state.sessions.get(id_) if id_ else None
    if session is None or not is_live(session, draft.now_s):
        raise InvalidRequest(
            f"agent {agent!r} has no live session in this territory: start its mount first (`leasefs mount --agent {agent}`)"
        )
    if session.id == parent.claim.session:
        raise InvalidRequest("that is yourself: nothing to delegate")
    for above in ancestors(draft.state, parent.claim):
        if draft.state.leases[above].claim.session == session.id:
            raise InvalidRequest(
                f"{parent.id} came from agent {agent!r} itself, by {above}: release it instead"
            )
    return session


def dirty_on(state: State, parent: Lease, globs: tuple[Glob, ...]) -> list[Intent]:
    """What was changed under the parent on this ground and is not committed."""
    return [
        intent
        for intent in unfinished(state, parent.claim, Require.COMMITTED)
        if lies_on(intent.path.encode("utf-8", "surrogateescape"), globs)
    ]


def _give(draft: Draft, child: Claim, session: Session, key: str, request: str) -> Decision:
    trial = Draft(draft.state, draft.now_s)
    take(trial, child, key, request, asked_by=session.id)
    cycle = cycle_by_grant(trial.state, child.id, draft.now_s)
    if cycle:
        return refuse(draft, child, Deadlock(names_of(trial.state, cycle)))
    return trial.done(lease_answer(trial.state, child.id, draft.now_s))
