"""Which of the ledger's events are put into the system's log as well, and how.

The ledger's own log has all of them, for ever and in order (`leasefs log`). Here is what an operator wants to meet
without asking: what somebody was refused, lost, or was made to give up, and who did that. Grants and releases are the
course of the day, and only told at level debug.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from leasefs.client.log_events import Event, fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasefs.core import events as ev
    from leasefs.core import identity_events
    from leasefs.core.state import State
    from leasefs.service.entries import Record

_log = logging.getLogger(__name__)
_GLOBS_SHOWN = 5


class EventLog:
    """Listens to a writer."""

    def heard(self, records: Sequence[Record], state: State) -> None:
        """Durable events (`service.writer.Listener`)."""
        for record in records:
            tell = _TELLERS.get(record.type)
            if tell is None:
                continue
            try:
                event, level, words, facts = tell(record.event)
            except Exception:  # noqa: BLE001 -- logged
                # The event is durable; a ledger does not end because it cannot find words for it.
                _log.exception("event %d (%s) cannot be told", record.seq, record.type)
                continue
            if not _log.isEnabledFor(level):
                continue
            whose = {"seq": record.seq, "territory": record.territory, "session": record.session}
            known = {name: value for name, value in whose.items() if value}
            _log.log(level, "%s", words, extra=fields(event, {**known, **facts}))


Told = tuple[Event, int, str, dict[str, object]]


def _told(event: Event, words: str, /, **facts: object) -> Told:
    return event, event.level, words, facts


def _session_opened(event: ev.SessionOpened) -> Told:
    one = event.session
    words = f"{one.agent} began a session ({one.kind}) on {one.host}"
    return _told(
        Event.SESSION_OPENED, words, agent=one.agent, kind=one.kind, host=one.host, pid=one.pid
    )


def _session_ended(event: ev.SessionEnded) -> Told:
    words = f"the session of {event.agent} ended: {event.reason}"
    return _told(Event.SESSION_ENDED, words, agent=event.agent, reason=event.reason)


def _granted(event: ev.Granted) -> Told:
    claim = event.claim
    globs = _globs(claim.globs)
    if claim.frozen_by:
        words = f"{claim.frozen_by} froze {globs}: {claim.note}"
        return _told(Event.OPERATED, words, by=claim.frozen_by, globs=globs, what="freeze")
    words = f"{claim.agent} holds {globs} ({claim.mode.value})"
    return _told(
        Event.GRANTED,
        words,
        agent=claim.agent,
        lease=claim.id,
        globs=globs,
        mode=claim.mode.value,
        ttl_s=claim.ttl_s,
    )


def _released(event: ev.Released) -> Told:
    words = f"{event.agent} gave {event.lease} back: {event.reason}"
    return _told(Event.RELEASED, words, agent=event.agent, lease=event.lease, token=event.token)


def _claim_refused(event: ev.ClaimRefused) -> Told:
    globs = _globs(event.globs)
    words = f"{event.agent} was refused {globs}: {event.message}"
    return _told(Event.CLAIM_REFUSED, words, agent=event.agent, globs=globs, code=event.code)


def _writes_refused(event: ev.WritesRefused) -> Told:
    first = event.refusals[0]
    count = len(event.refusals)
    more = f" and {count - 1} more" if count > 1 else ""
    how = "passed, without a lease" if first.observed else "was refused"
    words = f"{event.agent} {how}: {first.op} of {first.path}{more}: {first.reason}"
    return _told(
        Event.WRITE_REFUSED,
        words,
        agent=event.agent,
        path=first.path,
        op=first.op,
        count=count,
        errno=first.errno,
        pid=first.pid,
        program=first.program,
    )


def _foreign_writes(event: ev.ForeignWrites) -> Told:
    if not event.changes:
        words = f"events of {event.agent}'s tree were lost: it was looked through, and nothing had changed"
        return _told(Event.FOREIGN_WRITE, words, count=0, how=event.how.value, seen_by=event.agent)
    first, count = event.changes[0], len(event.changes)
    more = f" and {count - 1} more" if count > 1 else ""
    held = f", held by {first.holder.agent}" if first.holder else ""
    words = f"{first.path}{more} changed through no mount ({event.how.value}){held}"
    return _told(
        Event.FOREIGN_WRITE,
        words,
        path=first.path,
        count=count,
        how=event.how.value,
        seen_by=event.agent,
        holder=first.holder.agent if first.holder else None,
    )


def _recalled(event: ev.Recalled) -> Told:
    recall = event.recall
    words = (
        f"{event.agent} is to give {event.lease} up within {recall.within_s:g} s: {recall.reason}"
    )
    return _told(
        Event.RECALLED,
        words,
        agent=event.agent,
        lease=event.lease,
        token=event.token,
        by=recall.by,
        within_s=recall.within_s,
    )


def _revoked(event: ev.Revoked) -> Told:
    why = "its recall's deadline passed" if event.for_recall else f"by {event.by}"
    return _told(
        Event.REVOKED,
        f"{event.lease} of {event.agent} is revoked, {why}",
        agent=event.agent,
        lease=event.lease,
        token=event.token,
        by=event.by,
    )


def _lapsed(event: ev.Lapsed) -> Told:
    words = f"{event.lease} of {event.agent} lapsed: no heartbeat renewed it"
    return _told(Event.LAPSED, words, agent=event.agent, lease=event.lease, token=event.token)


def _expired(event: ev.Expired) -> Told:
    words = f"{event.agent} lost {event.lease}: {event.reason}"
    return _told(
        Event.EXPIRED,
        words,
        agent=event.agent,
        lease=event.lease,
        token=event.token,
        reason=event.reason,
    )


def _rescued(event: ev.Rescued) -> Told:
    rescue = event.rescue
    words = f"uncommitted work of {rescue.agent} was kept: {rescue.id}"
    return _told(Event.RESCUED, words, agent=rescue.agent, rescue=rescue.id, lease=rescue.lease)


def _admission_set(event: ev.AdmissionSet) -> Told:
    by = event.admission.by
    return _told(Event.OPERATED, f"{by} set the limits of admission", by=by, what="admission")


def _hold_set(event: ev.HoldSet) -> Told:
    words = f"{event.by} let {event.agent} hold {event.lease} for longer"
    return _told(Event.OPERATED, words, by=event.by, lease=event.lease, what="hold")


def _agent_added(event: identity_events.AgentAdded) -> Told:
    identity = event.identity
    words = f"{identity.added_by} issued the identity {identity.name} ({identity.role.value})"
    return _told(
        Event.OPERATED, words, by=identity.added_by, identity=identity.name, what="agent add"
    )


def _agent_changed(event: identity_events.AgentChanged) -> Told:
    words = f"{event.by} made {event.agent} an {event.role.value} of priority {event.priority}"
    return _told(Event.OPERATED, words, by=event.by, identity=event.agent, what="agent set")


def _agent_rotated(event: identity_events.AgentRotated) -> Told:
    words = f"{event.by} gave {event.agent} another token"
    return _told(Event.OPERATED, words, by=event.by, identity=event.agent, what="agent rotate")


def _agent_revoked(event: identity_events.AgentRevoked) -> Told:
    words = f"{event.by} revoked the identity {event.agent}"
    return _told(Event.OPERATED, words, by=event.by, identity=event.agent, what="agent revoke")


def _restored(event: ev.LedgerRestored) -> Told:
    words = (
        f"{event.by} restored the log from a backup that ends with event {event.backup_seq}; "
        f"nothing is granted for {event.closed_for_s:g} s"
    )
    return _told(Event.OPERATED, words, by=event.by, what="restore", backup_seq=event.backup_seq)


def _reopened(event: ev.LedgerReopened) -> Told:
    words = "claims are granted again after the restore"
    return _told(Event.OPERATED, words, by=event.by or None, what="reopen")


def _globs(globs: tuple[str, ...]) -> str:
    more = f" and {len(globs) - _GLOBS_SHOWN} more" if len(globs) > _GLOBS_SHOWN else ""
    return " ".join(globs[:_GLOBS_SHOWN]) + more


_TELLERS: dict[str, Callable[[Any], Told]] = {
    "session-opened": _session_opened,
    "session-ended": _session_ended,
    "granted": _granted,
    "released": _released,
    "claim-refused": _claim_refused,
    "writes-refused": _writes_refused,
    "foreign-writes": _foreign_writes,
    "recalled": _recalled,
    "revoked": _revoked,
    "lapsed": _lapsed,
    "expired": _expired,
    "rescued": _rescued,
    "admission-set": _admission_set,
    "hold-set": _hold_set,
    "agent-added": _agent_added,
    "agent-changed": _agent_changed,
    "agent-rotated": _agent_rotated,
    "agent-revoked": _agent_revoked,
    "ledger-restored": _restored,
    "ledger-reopened": _reopened,
}
