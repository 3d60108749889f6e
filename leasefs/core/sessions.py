"""Deciding sessions: opening, ending, and what becomes of a silent one's leases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from leasefs.core import ceilings, entitled
from leasefs.core.answers import Done
from leasefs.core.claims import session_of
from leasefs.core.ending import expire, withdraw
from leasefs.core.errors import AgentBusy, Denied, InvalidRequest
from leasefs.core.errors import SessionEnded as SessionGone
from leasefs.core.events import SessionEnded, SessionOpened
from leasefs.core.globs import globs_of
from leasefs.core.granting import settle
from leasefs.core.records import Claim, Session
from leasefs.core.releasing import Ending, end
from leasefs.core.views import is_live, session_answer

if TYPE_CHECKING:
    from leasefs.core.commands import EndSession, OpenSession
    from leasefs.core.draft import Decision, Draft
    from leasefs.core.globs import Glob
    from leasefs.core.state import State

KINDS = ("mount", "run", "shell")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_TERRITORY = re.compile(r"[!-~][ -~]{0,511}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


def is_name(text: str) -> bool:
    """Whether an agent or a harness can be called this."""
    return _NAME.fullmatch(text) is not None


def is_territory(text: str) -> bool:
    """Whether a territory can have this id."""
    return _TERRITORY.fullmatch(text) is not None


def open_session(draft: Draft, command: OpenSession) -> Decision:
    """Open a session unless the agent has a live one in this territory."""
    _check(command)
    identity = entitled.identity_for(draft.state, command)
    same = draft.state.sessions.get(command.session)
    if same is not None:
        strange = command.identity and command.identity != same.identity
        if strange or same.secret_sha256 != command.secret_sha256:
            raise Denied(f"session {command.session} exists and has another secret")
        session_of(draft.state, same.id)
        return draft.done(session_answer(same, draft.now_s))
    _clear_predecessor(draft, command)
    ceilings.check_sessions(draft.state, identity, command.most_sessions)
    session = Session(
        id=command.session,
        secret_sha256=command.secret_sha256,
        agent=command.agent,
        harness=command.harness,
        territory=command.territory,
        kind=command.kind,
        host=command.host,
        pid=command.pid,
        opened_at_s=draft.now_s,
        seen_at_s=draft.now_s,
        process=command.process,
        identity=identity,
    )
    draft.emit(SessionOpened(session))
    return draft.done(session_answer(session, draft.now_s))


def _check(command: OpenSession) -> None:
    for what, value, form in (
        ("agent", command.agent, _NAME),
        ("harness", command.harness, _NAME),
        ("territory", command.territory, _TERRITORY),
        ("session", command.session, _ID),
        ("secret_sha256", command.secret_sha256, _SHA256),
    ):
        if not form.fullmatch(value):
            raise InvalidRequest(
                f"bad {what} {value[:80]!r}: it must match {form.pattern}", field=what
            )
    if command.kind not in KINDS:
        raise InvalidRequest(f"bad session kind {command.kind!r}: one of {', '.join(KINDS)}")
    if len(command.host) > 255 or len(command.process) > 255 or command.pid < 0:
        raise InvalidRequest("bad host, pid or process of the session")


def _clear_predecessor(draft: Draft, command: OpenSession) -> None:
    """End the agent's former session, or raise AgentBusy if it lives and nobody asked to replace it.

    A dead predecessor cannot write any more, so its leases end at once. One that may only be asleep
    keeps its ground closed until its leases expire (P3).
    """
    former_id = draft.state.by_agent.get((command.territory, command.agent))
    if former_id is None:
        return
    former = draft.state.sessions[former_id]
    if command.predecessor_dead:
        _finish(draft, former, "its process is gone")
    elif command.replace or not is_live(former, draft.now_s):
        _orphan(draft, former, "replaced by a new session")
    else:
        where = f"{former.kind} on {former.host}, pid {former.pid}"
        raise AgentBusy(command.agent, former.id, where)


def end_session(draft: Draft, command: EndSession) -> Decision:
    """End a session by its own wish: everything it held is free at once."""
    session = draft.state.sessions.get(command.session)
    if session is None:
        raise SessionGone(command.session)
    _finish(draft, session, command.reason)
    return draft.done(Done())


def claims_of(state: State, session_id: str) -> list[Claim]:
    """Everything that the session holds or waits for, oldest first."""
    ids = state.of_session.get(session_id, ())
    found = [state.leases[id_].claim if id_ in state.leases else state.waiters[id_] for id_ in ids]
    return sorted(found, key=lambda claim: claim.claimed_seq)


def _finish(draft: Draft, session: Session, reason: str) -> None:
    """End the session and all it has; its former ground goes to whoever waits for it."""
    owned = claims_of(draft.state, session.id)
    for claim in owned:
        end(draft, claim, Ending(reason))
    draft.emit(SessionEnded(session.id, session.agent, reason))
    for claim in owned:
        settle(draft, claim.territory, globs_of(claim.globs))


def _orphan(draft: Draft, session: Session, reason: str) -> None:
    """End the session, but leave its unexpired leases to run out."""
    freed: list[tuple[str, tuple[Glob, ...]]] = []
    for claim in claims_of(draft.state, session.id):
        lease = draft.state.leases.get(claim.id)
        if lease is None:
            withdraw(draft, claim, reason)
        elif lease.lapsed(draft.now_s):
            expire(draft, lease, reason)
        else:
            continue
        freed.append((claim.territory, globs_of(claim.globs)))
    draft.emit(SessionEnded(session.id, session.agent, reason))
    for territory, globs in freed:
        settle(draft, territory, globs)
