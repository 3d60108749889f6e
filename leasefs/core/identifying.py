"""What the events of identities do to the ledger's state.

Called by `leasefs.core.state.apply` and, like it, asks no question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.identity_events import AgentAdded, AgentChanged, AgentRevoked, AgentRotated
from leasefs.core.records import Identity, replace
from leasefs.core.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.core import events as ev
    from leasefs.core.state import State

TOKENS_KEPT = 8


def agent_added(state: State, event: AgentAdded, recorded: ev.Recorded) -> State:
    """The ledger knows somebody; what is open under that name already is theirs from here on."""
    identity = event.identity
    if identity.role.may(Role.AGENT):
        sessions = state.sessions.mutate()
        for id_, session in state.sessions.items():
            if session.agent == identity.name and not session.identity:
                sessions[id_] = replace(session, identity=identity.name)
        state = replace(state, sessions=sessions.finish())
    return known(state, identity)


def agent_changed(state: State, event: AgentChanged, recorded: ev.Recorded) -> State:
    """It may do more, or less, or belongs to somebody else."""
    identity = state.identities[event.agent]
    changed = replace(
        identity, role=event.role, priority=event.priority, uid=event.uid, user=event.user
    )
    return known(state, changed)


def agent_rotated(state: State, event: AgentRotated, recorded: ev.Recorded) -> State:
    """It is known by another token."""
    identity = state.identities[event.agent]
    before = tuple(
        replace(token, good_until_s=event.good_until_s)
        if token.is_good(event.good_until_s)
        else token
        for token in identity.tokens[1 - TOKENS_KEPT :]
    )
    rotated = replace(
        identity,
        tokens=(*before, event.token),
        rotated_at_s=recorded.at_s,
        rotated_by=event.by,
    )
    return known(state, rotated)


def agent_revoked(state: State, event: AgentRevoked, recorded: ev.Recorded) -> State:
    """It is known, but for nothing any more; its sessions are to give up what they hold."""
    identity = replace(
        state.identities[event.agent], revoked_at_s=recorded.at_s, revoked_by=event.by
    )
    sessions = state.sessions.mutate()
    for id_, session in state.sessions.items():
        if session.identity == event.agent and not session.revoked_by:
            sessions[id_] = replace(session, revoked_by=event.by)
    return known(replace(state, sessions=sessions.finish()), identity)


def opened(state: State, name: str, at_s: float) -> State:
    """An identity opened a session."""
    identity = state.identities.get(name)
    if identity is None:
        return state
    return known(state, replace(identity, opened_at_s=at_s))


def known(state: State, identity: Identity) -> State:
    """With this identity in the place of the one that had its name."""
    by_token, by_uid = state.by_token.mutate(), state.by_uid.mutate()
    former = state.identities.get(identity.name)
    if former is not None:
        for token in former.tokens:
            by_token.pop(token.id, None)
        if former.uid is not None and by_uid.get(former.uid) == former.name:
            del by_uid[former.uid]
    for token in identity.tokens:
        by_token[token.id] = identity.name
    if identity.uid is not None and identity.is_live:
        by_uid[identity.uid] = identity.name
    return replace(
        state,
        identities=state.identities.set(identity.name, identity),
        by_token=by_token.finish(),
        by_uid=by_uid.finish(),
    )


CHANGES: dict[type[ev.Event], Callable[[State, Any, ev.Recorded], State]] = {
    AgentAdded: agent_added,
    AgentChanged: agent_changed,
    AgentRotated: agent_rotated,
    AgentRevoked: agent_revoked,
}
