"""Deciding claims and revocations (P1, P6, P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core import admission, ceilings, entitled
from leasefs.core.draft import Decision, Draft
from leasefs.core.ending import expire, withdraw
from leasefs.core.errors import (
    ClaimConflict,
    Deadlock,
    InvalidRequest,
    LeasefsError,
    LeaseLost,
    NotHolder,
    OverCap,
    SessionEnded,
    TtlOutOfRange,
    UnknownLease,
)
from leasefs.core.estimating import Estimate, estimate
from leasefs.core.events import (
    ClaimRefused,
    Queued,
    Renewal,
    Renewed,
    Revoked,
)
from leasefs.core.globs import Glob, globs_of, parse_glob
from leasefs.core.granting import is_live_again, settle, settle_territory, take
from leasefs.core.keys import answered_before, fingerprint
from leasefs.core.lease import MAX_GLOBS, MAX_TTL_S, MIN_TTL_S, Mode
from leasefs.core.obstacles import Obstacles, obstacles
from leasefs.core.recalling import check_within, recall_for, with_children
from leasefs.core.records import Claim, Lease, Session
from leasefs.core.views import lease_answer, waiting_answer
from leasefs.core.waits import cycle_by_grant, cycle_through, may_come_back, names_of

if TYPE_CHECKING:
    from leasefs.core.answers import Blocker, LeaseAnswer
    from leasefs.core.commands import ClaimLease, RevokeLease
    from leasefs.core.state import State

MAX_NOTE_LENGTH = 4096
MAX_PRIORITY = 100


def session_of(state: State, session_id: str) -> Session:
    """The session, or SessionEnded."""
    session = state.sessions.get(session_id)
    if session is None or session.revoked_by:
        raise SessionEnded(session_id, "" if session is None else session.revoked_by)
    return session


def claim(draft: Draft, command: ClaimLease) -> Decision:
    """Grant, queue, or refuse: all of the globs or none."""
    session = session_of(draft.state, command.session)
    _check(command)
    texts = tuple(glob.text for glob in checked_globs(command.globs))
    request = _request(command, texts)
    before = answered_before(session, command.key, request)
    if before is not None:
        return draft.done(_remembered(draft, before))
    entitled.check_claim(draft.state, session, command.priority, command.recall_within_s)
    _check_replaced(draft.state, command)
    wanted = Claim(
        id=f"L{draft.next_seq}",
        territory=session.territory,
        session=session.id,
        agent=session.agent,
        harness=session.harness,
        globs=texts,
        mode=command.mode,
        ttl_s=command.ttl_s,
        priority=command.priority,
        claimed_at_s=draft.now_s,
        claimed_seq=draft.next_seq,
        note=command.note,
        recall_within_s=command.recall_within_s,
        replaces=command.replaces,
    )
    same = _held_already(draft.state, wanted, draft.now_s)
    if same is not None:
        return _renew(draft, same, command.ttl_s)
    try:
        admission.check_caps(draft.state, wanted, command.share)
    except OverCap as error:
        return refuse(draft, wanted, error)
    found = obstacles(draft.state, wanted, draft.now_s)
    if found and not command.wait:
        return refuse(draft, wanted, conflict(wanted, found, draft.now_s))
    too_many = ceilings.waiting(draft.state, session, command.most_waiting) if found else None
    if too_many is not None:
        return refuse(draft, wanted, too_many)
    return _place(draft, wanted, found, command.key, request)


def _request(command: ClaimLease, texts: tuple[str, ...]) -> str:
    # Without the newer wishes as it always was: older logs remember it so.
    within_s, replaces = command.recall_within_s, command.replaces
    newer: tuple[object, ...] = () if within_s is None else (within_s,)
    newer += (replaces,) if replaces else ()
    return fingerprint("claim", texts, command.mode, command.ttl_s, command.priority, *newer)


def _check(command: ClaimLease) -> None:
    check_terms(command.ttl_s, command.priority, command.note)
    if command.recall_within_s is not None:
        check_within(command.recall_within_s)
        if not command.wait:
            raise InvalidRequest("a claim that recalls others has to wait for them: ask with wait")


def _check_replaced(state: State, command: ClaimLease) -> None:
    if not command.replaces:
        return
    lease = state.leases.get(command.replaces)
    if lease is None or lease.claim.session != command.session:
        raise UnknownLease(command.replaces)
    if lease.claim.mode is not Mode.SHARED:
        raise InvalidRequest(
            f"{lease.id} is exclusive: only a shared lease is replaced, by an upgrade; release it instead"
        )


def check_terms(ttl_s: float, priority: int, note: str) -> None:
    """Raise InvalidRequest or TtlOutOfRange unless a lease may have these terms."""
    if not MIN_TTL_S <= ttl_s <= MAX_TTL_S:
        raise TtlOutOfRange(ttl_s, MIN_TTL_S, MAX_TTL_S)
    if abs(priority) > MAX_PRIORITY:
        raise InvalidRequest(f"priority {priority} is not in -{MAX_PRIORITY}..{MAX_PRIORITY}")
    if len(note) > MAX_NOTE_LENGTH:
        raise InvalidRequest(f"a note has at most {MAX_NOTE_LENGTH} characters")


def checked_globs(globs: tuple[str, ...]) -> list[Glob]:
    """A claim's globs, each once, in the order given. Raises InvalidRequest and its children."""
    if not 1 <= len(globs) <= MAX_GLOBS:
        raise InvalidRequest(f"a claim names 1 to {MAX_GLOBS} globs, this one {len(globs)}")
    return list(dict.fromkeys(parse_glob(text) for text in globs))


def _remembered(draft: Draft, lease_id: str) -> LeaseAnswer:
    return lease_answer(draft.state, lease_id, draft.now_s)


def _held_already(state: State, wanted: Claim, now_s: float) -> Lease | None:
    """The session's own lease over exactly these globs: claiming it again renews it."""
    for id_ in state.held.candidates(wanted.territory, globs_of(wanted.globs)):
        lease = state.leases[id_]
        own = lease.claim
        if (
            own.session == wanted.session
            and own.mode is wanted.mode
            and not lease.revoked_by
            and may_come_back(state, lease, now_s)
            and set(own.globs) == set(wanted.globs)
        ):
            return lease
    return None


def renewal_of(lease: Lease, now_s: float, ttl_s: float, kept_by: tuple[str, ...]) -> Renewal:
    """The renewal of `lease` from now on.

    A deadline never moves back: should the answer that tells of a shorter TTL get lost, the holder
    still trusts what it was told before (P3).
    """
    return Renewal(lease.id, max(lease.expires_at_s, now_s + ttl_s), ttl_s, kept_by)


def _renew(draft: Draft, lease: Lease, ttl_s: float) -> Decision:
    renewal = renewal_of(lease, draft.now_s, ttl_s, lease.kept_by)
    was_lapsed = lease.lapsed(draft.now_s)
    draft.emit(Renewed(lease.claim.session, (renewal,)))
    if was_lapsed:
        is_live_again(draft, lease.id)
    return draft.done(_remembered(draft, lease.id))


def refuse(draft: Draft, wanted: Claim, error: LeasefsError) -> Decision:
    """The refusal of a claim, and its trace in the history (P11)."""
    draft.emit(
        ClaimRefused(
            session=wanted.session,
            agent=wanted.agent,
            territory=wanted.territory,
            globs=wanted.globs,
            code=error.code,
            message=error.message,
        )
    )
    return draft.refused(error)


def _place(draft: Draft, wanted: Claim, found: Obstacles, key: str, request: str) -> Decision:
    """Grant or queue on trial; a cycle of waiters undoes it and is refused instead (P7)."""
    trial, expected = Draft(draft.state, draft.now_s), None
    if found:
        expected = _expected(draft, wanted, found)
        eta_s = expected.eta_s if expected else None
        told = found.told(wanted, draft.now_s)
        behind = tuple(blocker.id for blocker in told if blocker.id)
        trial.emit(Queued(wanted, behind, key, request, eta_s, found.before.sessions()))
        recall_for(trial, wanted)
    else:
        take(trial, wanted, key, request, lapsed=found.before.lapsed)
    if found:
        cycle = cycle_through(trial.state, wanted.session, draft.now_s)
    else:
        cycle = cycle_by_grant(trial.state, wanted.id, draft.now_s)
    if cycle:
        return refuse(draft, wanted, Deadlock(names_of(trial.state, cycle)))
    if wanted.territory in trial.state.admission:
        settle_territory(trial, wanted.territory)
    elif found and wanted.recall_within_s is None:
        # Nothing has changed since these were found: a long queue is looked through once.
        return trial.done(waiting_answer(wanted, found, expected, draft.now_s))
    return trial.done(_remembered(trial, wanted.id))


def _expected(draft: Draft, wanted: Claim, found: Obstacles) -> Estimate | None:
    """How long the claim will wait, what it recalls taken into account."""
    if found.held_back is not None:
        return None
    if wanted.recall_within_s is None:
        return estimate(draft.state, wanted, draft.now_s, found.before.lines)
    probe = Draft(draft.state, draft.now_s)
    probe.emit(Queued(wanted, ()))
    recall_for(probe, wanted)
    return estimate(probe.state, wanted, draft.now_s)


def owned_claim(state: State, lease_id: str) -> Claim:
    """The claim with this id, held or waiting. Raises UnknownLease."""
    lease = state.leases.get(lease_id)
    owned = lease.claim if lease else state.waiters.get(lease_id)
    if owned is None:
        raise UnknownLease(lease_id)
    return owned


def own_live_lease(draft: Draft, session: Session, lease_id: str) -> Lease:
    """The lease with this id, which the session holds now. Raises UnknownLease, NotHolder, LeaseLost."""
    lease = draft.state.leases.get(lease_id)
    if lease is None:
        raise UnknownLease(lease_id)
    if lease.claim.session != session.id:
        raise NotHolder(lease_id, lease.claim.agent)
    if lease.revoked_by:
        raise LeaseLost(lease_id, f"revoked by {lease.revoked_by}")
    if lease.lapsed(draft.now_s):
        raise LeaseLost(lease_id, "lapsed")
    return lease


def revoke(draft: Draft, command: RevokeLease) -> Decision:
    """End somebody else's lease and what was carved out of it.

    It is never renewed again, and free once its holder drops it or it expires. A freeze is free at once: nobody
    writes under it.
    """
    owned = owned_claim(draft.state, command.lease)
    if owned.id not in draft.state.leases:
        withdraw(draft, owned, f"withdrawn by {command.operator}")
        settle(draft, owned.territory, globs_of(owned.globs))
    else:
        for id_ in with_children(draft.state, owned.id):
            if id_ in draft.state.leases:
                revoke_one(draft, draft.state.leases[id_], command.operator)
    return draft.done(_remembered(draft, owned.id))


def revoke_one(draft: Draft, lease: Lease, operator: str) -> None:
    """End one lease, and leave alone what was carved out of it."""
    owned = lease.claim
    if lease.lapsed(draft.now_s) or owned.frozen_by:
        expire(draft, lease, f"revoked by {operator}")
        settle(draft, owned.territory, globs_of(owned.globs))
    elif not lease.revoked_by or lease.recall is not None:
        draft.emit(Revoked(owned.id, owned.agent, lease.token, operator))


def conflict(wanted: Claim, found: Obstacles, now_s: float) -> ClaimConflict:
    """The refusal of a claim that would not wait: who holds what, where they meet, until when (P10)."""
    told = found.told(wanted, now_s)
    more = f"; {found.count - 1} more in the way" if found.count > 1 else ""
    return ClaimConflict(
        f"{_stands_before(told[0])}{more}. Queue with --wait, or claim other ground",
        blockers=[_plain(blocker) for blocker in told],
    )


def _stands_before(first: Blocker) -> str:
    if first.kind == "closed":
        return first.reason
    if first.kind == "admission":
        return f"the territory takes on no more work now: {first.reason}"
    where = f"{first.wanted} overlaps {first.glob}, both match {first.witness!r}"
    if first.kind == "freeze":
        return f"{where}; frozen by {first.agent} as {first.id}: {first.reason}"
    if first.kind == "claim":
        return f"{where}; {first.agent} ({first.harness}) waits for it before you, as {first.id}"
    return (
        f"{where}; held by {first.agent} ({first.harness}) as {first.id} {first.mode.value}, "
        f"for {max(0.0, first.expires_in_s or 0.0):.0f} s more unless renewed"
    )


def _plain(blocker: Blocker) -> dict[str, object]:
    return {
        "id": blocker.id,
        "kind": blocker.kind,
        "agent": blocker.agent,
        "harness": blocker.harness,
        "mode": blocker.mode.value,
        "glob": blocker.glob,
        "wanted": blocker.wanted,
        "witness": blocker.witness,
        "expires_in_s": blocker.expires_in_s,
        "yields_in_s": blocker.yields_in_s,
        "reason": blocker.reason,
    }
