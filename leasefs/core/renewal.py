"""Deciding heartbeats and the passing of time (P3, P4, P5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.answers import Done, HeartbeatAnswer, LostLease, RenewedLease
from leasefs.core.claims import renewal_of, session_of
from leasefs.core.ending import expire, withdraw
from leasefs.core.errors import SessionEnded as SessionGone
from leasefs.core.events import (
    Lapsed,
    LedgerStarted,
    Renewal,
    Renewed,
    SessionEnded,
    WritesRefused,
)
from leasefs.core.globs import globs_of
from leasefs.core.granting import is_live_again, settle
from leasefs.core.lease import SESSION_TTL_S
from leasefs.core.recalling import come_back, due_at_s, overdue
from leasefs.core.restoring import open_if_due
from leasefs.core.views import is_live, recall_answer
from leasefs.core.waits import may_come_back

if TYPE_CHECKING:
    from leasefs.core.commands import Beat, Heartbeat, ReportRefusals, StartLedger, Tick
    from leasefs.core.draft import Decision, Draft
    from leasefs.core.records import Lease, Session
    from leasefs.core.state import State

RECLAIM_GRACE_S = 10.0
KEEP_LAPSED_S = 7 * 24 * 3600.0
MAX_REFUSALS_IN_BATCH = 1000


def start_ledger(draft: Draft, command: StartLedger) -> Decision:
    """Take over the log. Holders could not renew while no server ran, so they get time to (P3)."""
    draft.emit(LedgerStarted(command.server, command.boot_id, RECLAIM_GRACE_S, command.boottime_s))
    return draft.done(Done())


def heartbeat(draft: Draft, command: Heartbeat) -> Decision:
    """Renew what can be renewed and say what is lost; a lapsed lease comes back if it is free."""
    session = draft.state.sessions.get(command.session)
    if session is None:
        raise SessionGone(command.session)
    for lease_id in dict.fromkeys(command.dropped):
        _drop(draft, session, lease_id)
    if session.revoked_by:
        return _last_words(draft, session, command)
    renewals: list[Renewal] = []
    lost: list[LostLease] = []
    for beat in {beat.lease: beat for beat in command.renew}.values():
        reason = _why_lost(draft, session, beat)
        if reason:
            lost.append(LostLease(beat.lease, reason))
        else:
            lease = draft.state.leases[beat.lease]
            renewals.append(renewal_of(lease, draft.now_s, lease.claim.ttl_s, beat.kept_by))
    back = [item.lease for item in renewals if draft.state.leases[item.lease].lapsed(draft.now_s)]
    if renewals or draft.now_s - session.seen_at_s > SESSION_TTL_S / 6:
        draft.emit(Renewed(session.id, tuple(renewals)))
    for lease_id in back:
        is_live_again(draft, lease_id)
    renewed = tuple(_renewed(draft, item) for item in renewals)
    return draft.done(HeartbeatAnswer(renewed, tuple(lost)))


def _last_words(draft: Draft, session: Session, command: Heartbeat) -> Decision:
    """Of a session whose identity was revoked: it learns that it has lost all, and is over when it has dropped it."""
    reason = f"revoked by {session.revoked_by}"
    if session.id not in draft.state.of_session:
        draft.emit(SessionEnded(session.id, session.agent, f"its identity was {reason}"))
    lost = tuple(LostLease(beat.lease, reason) for beat in command.renew)
    return draft.done(HeartbeatAnswer((), lost))


def _renewed(draft: Draft, item: Renewal) -> RenewedLease:
    lease = draft.state.leases[item.lease]
    return RenewedLease(
        item.lease, lease.token, item.ttl_s, recall=recall_answer(lease, draft.now_s)
    )


def _drop(draft: Draft, session: Session, lease_id: str) -> None:
    """The holder no longer trusts a revoked lease, so its ground can open before the deadline."""
    lease = draft.state.leases.get(lease_id)
    if lease is not None and lease.claim.session == session.id and lease.revoked_by:
        _expire(draft, lease, f"revoked by {lease.revoked_by}")


def _why_lost(draft: Draft, session: Session, beat: Beat) -> str:
    """Why this lease cannot be renewed; empty if it can."""
    lease = draft.state.leases.get(beat.lease)
    if lease is None:
        reason = dict(session.fenced).get(beat.lease, "released, or never granted")
        return reason + _where_work_is(draft.state, session, beat.lease)
    if lease.claim.session != session.id:
        return f"held by {lease.claim.agent}, not by this session"
    if lease.token != beat.token:
        return f"token {beat.token} is stale, the lease has {lease.token}"
    if lease.revoked_by:
        return f"revoked by {lease.revoked_by}"
    if not may_come_back(draft.state, lease, draft.now_s):
        _expire(draft, lease, "lapsed, and a waiter that you wait for needs it")
        return "lapsed, and a waiter that you wait for needs it"
    return ""


def _where_work_is(state: State, session: Session, lease_id: str) -> str:
    """For the holder of a lost lease: where its uncommitted bytes are kept (P9)."""
    for rescue in state.rescues_of(session.territory).values():
        if rescue.lease == lease_id:
            return f"; what was uncommitted is in a rescue: leasefs rescue show {rescue.id}"
    return ""


def _expire(draft: Draft, lease: Lease, reason: str) -> None:
    expire(draft, lease, reason)
    come_back(draft, lease)
    settle(draft, lease.claim.territory, globs_of(lease.claim.globs))


def report_refusals(draft: Draft, command: ReportRefusals) -> Decision:
    """Write a mount's refusals into the history."""
    session = session_of(draft.state, command.session)
    refusals = command.refusals[:MAX_REFUSALS_IN_BATCH]
    if refusals:
        draft.emit(WritesRefused(session.id, session.agent, refusals))
    return draft.done(Done())


def tick(draft: Draft, command: Tick) -> Decision:
    """Act on the deadlines that have passed; what is not due is left alone."""
    open_if_due(draft)
    for session_id in command.sessions:
        session = draft.state.sessions.get(session_id)
        if session is not None and not is_live(session, draft.now_s):
            _quiet_session(draft, session)
    for lease_id in command.leases:
        lease = draft.state.leases.get(lease_id)
        if lease is None:
            continue
        if lease.lapsed(draft.now_s) or not overdue(draft, lease):
            _overdue_lease(draft, lease)
        else:
            _open_ground_of_shells(draft, lease)
    return draft.done(Done())


def _open_ground_of_shells(draft: Draft, lease: Lease) -> None:
    """What was just revoked of a session that fences nobody's writes need not stay closed until its TTL ends.

    No mount trusts it, and a shell that claims and is gone would never hear that it has to drop it.
    """
    session = draft.state.sessions.get(lease.claim.session)
    lease = draft.state.leases[lease.id]
    if lease.revoked_by and session is not None and session.kind == "shell":
        _expire(draft, lease, f"revoked by {lease.revoked_by}")


def _overdue_lease(draft: Draft, lease: Lease) -> None:
    claim = lease.claim
    if not lease.lapsed(draft.now_s):
        return
    if lease.revoked_by:
        _expire(draft, lease, f"revoked by {lease.revoked_by}")
    elif claim.session not in draft.state.sessions:
        ended = "the freeze is over" if claim.frozen_by else "its session had ended"
        _expire(draft, lease, ended)
    elif claim.parent in draft.state.leases:
        _expire(draft, lease, "lapsed, so it went back to the lease that it was carved out of")
    elif not lease.lapse_recorded:
        draft.emit(Lapsed(claim.id, claim.agent, lease.token))
        settle(draft, claim.territory, globs_of(claim.globs))
    elif draft.now_s - lease.expires_at_s >= KEEP_LAPSED_S:
        _expire(draft, lease, "lapsed and never renewed")


def _quiet_session(draft: Draft, session: Session) -> None:
    """A silent session must not be granted anything; forgotten after long, once it holds nothing."""
    owned = draft.state.of_session.get(session.id, ())
    waiting = [draft.state.waiters[id_] for id_ in owned if id_ in draft.state.waiters]
    for claim in waiting:
        withdraw(draft, claim, "its session is silent")
    for claim in waiting:
        settle(draft, claim.territory, globs_of(claim.globs))
    silent_s = draft.now_s - session.seen_at_s
    over = (
        "silent for long"
        if silent_s >= KEEP_LAPSED_S
        else session.revoked_by and "its identity was revoked"
    )
    if over and session.id not in draft.state.of_session:
        draft.emit(SessionEnded(session.id, session.agent, over))


def lease_due_at_s(state: State, lease_id: str) -> float | None:
    """When `tick` must look at this lease next; None once it is gone."""
    lease = state.leases.get(lease_id)
    if lease is None:
        return None
    if lease.lapse_recorded:
        return lease.expires_at_s + KEEP_LAPSED_S
    asked_s = due_at_s(state, lease)
    return lease.expires_at_s if asked_s is None else min(lease.expires_at_s, asked_s)


def session_due_at_s(state: State, session_id: str, now_s: float) -> float | None:
    """When `tick` must look at this session next; None once it is gone."""
    session = state.sessions.get(session_id)
    if session is None:
        return None
    if is_live(session, now_s):
        return session.seen_at_s + SESSION_TTL_S
    look_again_s = now_s + SESSION_TTL_S
    return (
        look_again_s if session.revoked_by else max(session.seen_at_s + KEEP_LAPSED_S, look_again_s)
    )
