"""The ledger's state, and what each event does to it.

`apply` asks no question and refuses nothing: whether something may happen was settled by
`leasefs.core.ledger.decide` before the event was written. So replaying the log always gives the same
state (P11). Every value here is immutable; a new state shares what did not change with the old one,
so that trying out a decision and dropping it costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from immutables import Map
from msgspec import Struct, field

from leasefs.core import events as ev
from leasefs.core import fresh, identifying, leftovers, scheduling
from leasefs.core.globs import globs_of
from leasefs.core.holds import with_hold
from leasefs.core.index import GlobIndex
from leasefs.core.intents import HANDED_ON
from leasefs.core.keys import operated
from leasefs.core.records import (
    Admission,
    Answered,
    Claim,
    Fresh,
    HandOff,
    Identity,
    Lease,
    Rescue,
    Session,
    replace,
)
from leasefs.core.uncommitted import Uncommitted, work_id

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS_REMEMBERED = 64
_NO_IDS: Map[str, None] = Map()
_NO_NOTES: Map[str, HandOff] = Map()
_NO_RESCUES: Map[str, Rescue] = Map()


class State(Struct, frozen=True):
    """Everything the ledger knows after event `seq`.

    `held` and `waiting` index the globs of `leases` and `waiters`; `by_agent` finds the session of an
    agent in a territory; `of_session` lists the leases and claims of a session; `holds` keeps the last
    hold times, in seconds, for estimates (`leasefs.core.estimating` knows the keys). `recalled` has the ids of leases
    that were recalled, `children` those that were carved out of a lease; `exclusive` counts the live exclusive leases
    of a territory, and `admission` is how many it may have. `rescues` are kept by territory and id, and `notes`
    wait for the next holder of overlapping ground, by territory and lease; `rescued` and `noted` index their
    globs. `fresh` has the last success of each check, by territory and key. `identities` are by name, and `by_token` and
    `by_uid` say whose a token's id or a local user is. `operated` are the last requests of operators that acted. Until
    `closed_until_s` nothing is granted, because the log was brought back from a backup; 0: it is open.
    """

    seq: int = 0
    at_s: float = 0.0
    sessions: Map[str, Session] = field(default_factory=Map)
    leases: Map[str, Lease] = field(default_factory=Map)
    waiters: Map[str, Claim] = field(default_factory=Map)
    held: GlobIndex = field(default_factory=GlobIndex)
    waiting: GlobIndex = field(default_factory=GlobIndex)
    by_agent: Map[tuple[str, str], str] = field(default_factory=Map)
    of_session: Map[str, Map[str, None]] = field(default_factory=Map)
    holds: Map[str, tuple[float, ...]] = field(default_factory=Map)
    uncommitted: Uncommitted = field(default_factory=Uncommitted)
    rescues: Map[str, Map[str, Rescue]] = field(default_factory=Map)
    rescued: GlobIndex = field(default_factory=GlobIndex)
    notes: Map[str, Map[str, HandOff]] = field(default_factory=Map)
    noted: GlobIndex = field(default_factory=GlobIndex)
    fresh: Map[str, Map[str, Fresh]] = field(default_factory=Map)
    admission: Map[str, Admission] = field(default_factory=Map)
    recalled: Map[str, None] = field(default_factory=Map)
    children: Map[str, Map[str, None]] = field(default_factory=Map)
    exclusive: Map[str, int] = field(default_factory=Map)
    identities: Map[str, Identity] = field(default_factory=Map)
    by_token: Map[str, str] = field(default_factory=Map)
    by_uid: Map[int, str] = field(default_factory=Map)
    operated: tuple[Answered, ...] = ()
    closed_until_s: float = 0.0

    def rescues_of(self, territory: str) -> Map[str, Rescue]:
        """The rescues of a territory, by id."""
        return self.rescues.get(territory, _NO_RESCUES)

    def notes_of(self, territory: str) -> Map[str, HandOff]:
        """The notes of a territory that nobody was handed yet, by the lease that they were left with."""
        return self.notes.get(territory, _NO_NOTES)


def apply(state: State, recorded: ev.Recorded) -> State:
    """The state after one more event. Raises ValueError if the event is not the next one."""
    # Only where a backup was brought back do numbers jump, beyond all that were handed out since it was made.
    restored = isinstance(recorded.event, ev.LedgerRestored) and recorded.seq > state.seq
    if recorded.seq != state.seq + 1 and not restored:
        raise ValueError(f"event {recorded.seq} does not follow event {state.seq}")
    change = _CHANGES[type(recorded.event)]
    changed: State = change(state, recorded.event, recorded)
    return replace(changed, seq=recorded.seq, at_s=recorded.at_s)


def _ledger_started(state: State, event: ev.LedgerStarted, recorded: ev.Recorded) -> State:
    leases, sessions = state.leases.mutate(), state.sessions.mutate()
    for id_, lease in state.leases.items():
        reclaim_until_s = recorded.at_s + min(event.grace_s, lease.claim.ttl_s)
        if (
            not lease.lapse_recorded
            and not lease.revoked_by
            # What had lapsed while a server ran stays so: claims were decided on it.
            and not lease.lapsed(state.at_s)
            and lease.expires_at_s < reclaim_until_s
        ):
            leases[id_] = replace(lease, expires_at_s=reclaim_until_s)
    for id_, session in state.sessions.items():
        sessions[id_] = replace(session, seen_at_s=recorded.at_s)
    state = replace(state, leases=leases.finish(), sessions=sessions.finish())
    for ids in state.children.values():
        for id_ in ids:
            state = scheduling.lasting_as_long_as(state, state.leases[id_], recorded.at_s)
    return state


def _ledger_restored(state: State, event: ev.LedgerRestored, recorded: ev.Recorded) -> State:
    """Nobody holds anything, nobody waits; see `leasefs.core.restoring`. Freezes stay, for they only forbid."""
    leases = {id_: lease for id_, lease in state.leases.items() if lease.claim.frozen_by}
    waiters = {id_: claim for id_, claim in state.waiters.items() if claim.frozen_by}
    bare = State(
        leases=Map(leases),
        waiters=Map(waiters),
        holds=state.holds,
        uncommitted=state.uncommitted,
        rescues=state.rescues,
        rescued=state.rescued,
        notes=state.notes,
        noted=state.noted,
        fresh=state.fresh,
        admission=state.admission,
        identities=state.identities,
        by_token=state.by_token,
        by_uid=state.by_uid,
        operated=state.operated,
        closed_until_s=recorded.at_s + event.closed_for_s,
    )
    for claim in (*(lease.claim for lease in leases.values()), *waiters.values()):
        index = "held" if claim.id in leases else "waiting"
        ground = getattr(bare, index).adding(claim.territory, globs_of(claim.globs), claim.id)
        bare = replace(bare, **{index: ground})
        bare = replace(bare, of_session=_with_id(bare, claim.session, claim.id))
    return bare


def _ledger_reopened(state: State, event: ev.LedgerReopened, recorded: ev.Recorded) -> State:
    return replace(state, closed_until_s=0.0)


def _session_opened(state: State, event: ev.SessionOpened, recorded: ev.Recorded) -> State:
    session = event.session
    if session.identity:
        state = identifying.opened(state, session.identity, recorded.at_s)
    return replace(
        state,
        sessions=state.sessions.set(session.id, session),
        by_agent=state.by_agent.set((session.territory, session.agent), session.id),
    )


def _session_ended(state: State, event: ev.SessionEnded, recorded: ev.Recorded) -> State:
    session = state.sessions[event.session]
    name = (session.territory, session.agent)
    by_agent = state.by_agent
    if by_agent.get(name) == session.id:
        by_agent = by_agent.delete(name)
    return replace(state, sessions=state.sessions.delete(session.id), by_agent=by_agent)


def _granted(state: State, event: ev.Granted, recorded: ev.Recorded) -> State:
    claim = event.claim
    if claim.id in state.waiters:
        state = _without_waiter(state, claim.id)
    lease = Lease(
        claim=claim,
        token=recorded.seq,
        granted_at_s=recorded.at_s,
        expires_at_s=recorded.at_s + claim.ttl_s,
        inherited=event.notes,
    )
    for note in event.notes:
        state = leftovers.without_note(state, note)
    state = replace(
        state,
        leases=state.leases.set(claim.id, lease),
        held=state.held.adding(claim.territory, globs_of(claim.globs), claim.id),
        of_session=_with_id(state, claim.session, claim.id),
    )
    state = scheduling.with_lease(state, lease, recorded.at_s)
    asked_by = event.asked_by or claim.session
    return _answered(state, asked_by, event.key, event.request, claim.id, recorded.at_s)


def _queued(state: State, event: ev.Queued, recorded: ev.Recorded) -> State:
    claim = event.claim
    state = replace(
        state,
        waiters=state.waiters.set(claim.id, claim),
        waiting=state.waiting.adding(claim.territory, globs_of(claim.globs), claim.id),
        of_session=_with_id(state, claim.session, claim.id),
    )
    return _answered(state, claim.session, event.key, event.request, claim.id, recorded.at_s)


def _withdrawn(state: State, event: ev.Withdrawn, recorded: ev.Recorded) -> State:
    claim = state.waiters[event.claim]
    session = claim.session
    state = _without_waiter(state, event.claim)
    if claim.frozen_by:
        return operated(state, event.key, event.request, event.claim)
    return _answered(state, session, event.key, event.request, event.claim, recorded.at_s)


def _renewed(state: State, event: ev.Renewed, recorded: ev.Recorded) -> State:
    leases, back = state.leases.mutate(), []
    for renewal in event.leases:
        lease = leases[renewal.lease]
        if lease.lapse_recorded:
            back.append(lease)
        claim = lease.claim
        if renewal.ttl_s != claim.ttl_s:
            claim = replace(claim, ttl_s=renewal.ttl_s)
        leases[renewal.lease] = replace(
            lease,
            claim=claim,
            expires_at_s=renewal.expires_at_s,
            lapse_recorded=False,
            kept_by=renewal.kept_by,
        )
    session = replace(state.sessions[event.session], seen_at_s=recorded.at_s)
    state = replace(
        state, leases=leases.finish(), sessions=state.sessions.set(event.session, session)
    )
    for lease in back:
        state = scheduling.counting(state, lease.claim, 1)
    for renewal in event.leases:
        lease = state.leases[renewal.lease]
        state = scheduling.lasting_as_long_as(state, lease, recorded.at_s)
    return state


def _lapsed(state: State, event: ev.Lapsed, recorded: ev.Recorded) -> State:
    lease = replace(state.leases[event.lease], lapse_recorded=True)
    state = scheduling.counting(state, lease.claim, -1)
    return replace(state, leases=state.leases.set(event.lease, lease))


def _released(state: State, event: ev.Released, recorded: ev.Recorded) -> State:
    claim = state.leases[event.lease].claim
    state = _without_lease(state, event.lease, recorded.at_s)
    if event.left == HANDED_ON:
        id_ = work_id(event.lease, event.agent)
        uncommitted = state.uncommitted.handing_on(claim.territory, id_)
        state = replace(state, uncommitted=uncommitted)
    if event.note or event.commit:
        state = leftovers.with_note(state, claim, event.note, event.commit, recorded.at_s)
    if claim.frozen_by:
        return operated(state, event.key, event.request, event.lease)
    return _answered(state, claim.session, event.key, event.request, event.lease, recorded.at_s)


def _revoked(state: State, event: ev.Revoked, recorded: ev.Recorded) -> State:
    lease = replace(state.leases[event.lease], revoked_by=event.by)
    if not event.for_recall:
        lease = replace(lease, recall=None)
        state = replace(state, recalled=scheduling.without(state.recalled, event.lease))
    return replace(state, leases=state.leases.set(event.lease, lease))


def _expired(state: State, event: ev.Expired, recorded: ev.Recorded) -> State:
    session_id = state.leases[event.lease].claim.session
    state = _without_lease(state, event.lease, recorded.at_s)
    session = state.sessions.get(session_id)
    if session is None:
        return state
    fenced = (*session.fenced[1 - KEYS_REMEMBERED :], (event.lease, event.reason))
    return replace(state, sessions=state.sessions.set(session_id, replace(session, fenced=fenced)))


def _only_history(state: State, event: ev.Event, recorded: ev.Recorded) -> State:
    return state


def _with_id(state: State, session: str, id_: str) -> Map[str, Map[str, None]]:
    return state.of_session.set(session, state.of_session.get(session, _NO_IDS).set(id_, None))


def _without_id(state: State, session: str, id_: str) -> Map[str, Map[str, None]]:
    ids = state.of_session[session].delete(id_)
    return state.of_session.set(session, ids) if len(ids) else state.of_session.delete(session)


def _without_waiter(state: State, id_: str) -> State:
    claim = state.waiters[id_]
    return replace(
        state,
        waiters=state.waiters.delete(id_),
        waiting=state.waiting.removing(claim.territory, globs_of(claim.globs), id_),
        of_session=_without_id(state, claim.session, id_),
    )


def _without_lease(state: State, id_: str, at_s: float) -> State:
    lease = state.leases[id_]
    claim, before = lease.claim, state
    state = scheduling.without_lease(state, lease)
    return replace(
        state,
        leases=state.leases.delete(id_),
        held=state.held.removing(claim.territory, globs_of(claim.globs), id_),
        of_session=_without_id(state, claim.session, id_),
        holds=with_hold(before, lease, at_s),
    )


def _recalled(state: State, event: ev.Recalled, recorded: ev.Recorded) -> State:
    state = scheduling.recalled(state, event, recorded)
    session = state.leases[event.lease].claim.session
    return _answered(state, session, event.key, event.request, event.lease, recorded.at_s)


def _downgraded(state: State, event: ev.Downgraded, recorded: ev.Recorded) -> State:
    state = scheduling.downgraded(state, event, recorded)
    session = state.leases[event.lease].claim.session
    return _answered(state, session, event.key, event.request, event.lease, recorded.at_s)


def _answered(
    state: State, session_id: str, key: str, request: str, lease_id: str, at_s: float
) -> State:
    """Remember the answer to a session's own request, which is also a sign of life.

    One request that led to several leases is one answer, with their ids side by side.
    """
    session = state.sessions.get(session_id)
    if not key or session is None:
        return state
    before = session.answered
    if before and (before[-1].key, before[-1].request) == (key, request):
        before, lease_id = before[:-1], f"{before[-1].lease_id} {lease_id}"
    answered = (*before[1 - KEYS_REMEMBERED :], Answered(key, request, lease_id))
    seen = replace(session, answered=answered, seen_at_s=at_s)
    return replace(state, sessions=state.sessions.set(session_id, seen))


_CHANGES: dict[type[ev.Event], Callable[[State, Any, ev.Recorded], State]] = {
    ev.LedgerStarted: _ledger_started,
    ev.LedgerRestored: _ledger_restored,
    ev.LedgerReopened: _ledger_reopened,
    ev.SessionOpened: _session_opened,
    ev.SessionEnded: _session_ended,
    ev.Granted: _granted,
    ev.Queued: _queued,
    ev.ClaimRefused: _only_history,
    ev.Withdrawn: _withdrawn,
    ev.Renewed: _renewed,
    ev.Lapsed: _lapsed,
    ev.Released: _released,
    ev.Revoked: _revoked,
    ev.Recalled: _recalled,
    ev.RecallEnded: scheduling.recall_ended,
    ev.Downgraded: _downgraded,
    ev.AdmissionSet: scheduling.admission_set,
    ev.HoldSet: scheduling.hold_set,
    ev.Expired: _expired,
    ev.WritesRefused: _only_history,
    ev.ReleaseRefused: _only_history,
    ev.IntentsNoted: leftovers.intents_noted,
    ev.IntentsSettled: leftovers.intents_settled,
    ev.ForeignWrites: _only_history,
    ev.Rescued: leftovers.rescued,
    ev.RescueDropped: leftovers.rescue_dropped,
    ev.FreshRecorded: fresh.fresh_recorded,
    **identifying.CHANGES,
}
