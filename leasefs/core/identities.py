"""Deciding identities: who is issued one, when its token changes, and what becomes of its sessions when it is revoked.

The ledger never sees a token when it is issued: whoever asks made it, and sends its hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core import tokens
from leasefs.core.answers import AgentAnswer
from leasefs.core.claims import revoke_one
from leasefs.core.ending import expire, withdraw
from leasefs.core.errors import Denied, InvalidRequest
from leasefs.core.events import SessionEnded
from leasefs.core.globs import globs_of
from leasefs.core.granting import settle
from leasefs.core.identifying import TOKENS_KEPT
from leasefs.core.identity_commands import AddAgent, ChangeAgent, RevokeAgent, RotateAgent
from leasefs.core.identity_events import AgentAdded, AgentChanged, AgentRevoked, AgentRotated
from leasefs.core.records import Identity, Token, replace
from leasefs.core.roles import GREATEST_PRIORITY, LEAST_PRIORITY, MAX_GRACE_S, USUAL_PRIORITY, Role
from leasefs.core.sessions import claims_of, is_name
from leasefs.core.views import is_live

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.core.command_base import Command
    from leasefs.core.draft import Decision, Draft
    from leasefs.core.records import Session
    from leasefs.core.state import State

MAX_USER_LENGTH = 256
MAX_UID = 2**32 - 2
NOBODY = -1
"""As a `uid` to change to: no local user."""


def add_agent(draft: Draft, command: AddAgent) -> Decision:
    """Issue an identity. Sent twice, it is issued once (P6).

    Raises:
        Denied: its name, token or local user is that of another one.
        InvalidRequest: it cannot be called that, or have such a priority.
    """
    _check(command)
    former = draft.state.identities.get(command.name)
    if former is not None and former.is_live:
        if _is_same(former, command):
            return draft.done(agent_answer(draft.state, former, draft.now_s))
        raise Denied(
            f"there is an identity {command.name} already, an {former.role}, added by {former.added_by}; rotate its token, "
            "revoke it first, or choose another name",
            identity=command.name,
        )
    _check_free(draft.state, command)
    priority = USUAL_PRIORITY[command.role] if command.priority is None else command.priority
    token = Token(command.token_id, command.token_sha256, draft.now_s)
    identity = Identity(
        name=command.name,
        role=command.role,
        priority=priority,
        tokens=(*_over(former), token),
        added_at_s=draft.now_s,
        added_by=command.operator,
        uid=command.uid,
        user=command.user,
    )
    draft.emit(AgentAdded(identity))
    return draft.done(agent_answer(draft.state, identity, draft.now_s))


def _check(command: AddAgent) -> None:
    if not is_name(command.name):
        raise InvalidRequest(
            f"bad name {command.name[:80]!r}: an identity is called as an agent is, by 1 to 64 letters, digits or ._@+-",
            field="name",
        )
    _check_token(command)
    _check_terms(command)


def _check_terms(command: AddAgent | ChangeAgent) -> None:
    if command.priority is not None and not (
        LEAST_PRIORITY <= command.priority <= GREATEST_PRIORITY
    ):
        raise InvalidRequest(
            f"priority {command.priority} is not in {LEAST_PRIORITY}..{GREATEST_PRIORITY}",
            field="priority",
        )
    least = NOBODY if isinstance(command, ChangeAgent) else 0
    if len(command.user) > MAX_USER_LENGTH or not least <= (command.uid or 0) <= MAX_UID:
        raise InvalidRequest("there is no such local user", field="user")


def _check_token(command: AddAgent | RotateAgent) -> None:
    if not tokens.is_id(command.token_id) or not tokens.is_hash(command.token_sha256):
        raise InvalidRequest(
            "a token has an id of 12 hexadecimal digits and a SHA-256 hash of 64, in lower case",
            field="token_id",
        )


def _is_same(identity: Identity, command: AddAgent) -> bool:
    token = identity.tokens[-1]
    wanted = USUAL_PRIORITY[command.role] if command.priority is None else command.priority
    return (identity.role, identity.priority, identity.uid) == (
        command.role,
        wanted,
        command.uid,
    ) and (token.id, token.sha256) == (command.token_id, command.token_sha256)


def _check_free(state: State, command: AddAgent) -> None:
    if command.token_id in state.by_token:
        raise Denied("this token's id is taken; make another one")
    _check_user(state, command)


def _check_user(state: State, command: AddAgent | ChangeAgent) -> None:
    whose = None if command.uid is None else state.by_uid.get(command.uid)
    if whose not in {None, command.name}:
        raise Denied(
            f"local user {command.user or command.uid} is {whose} already, and can be one identity only; let go of that "
            f"first (`leasefs agent set {whose} --user none`)",
            identity=whose,
        )


def _over(former: Identity | None) -> tuple[Token, ...]:
    """The tokens of the revoked identity that had this name: good no more, but known."""
    if former is None or former.revoked_at_s is None:
        return ()
    over_s = former.revoked_at_s
    return tuple(
        replace(token, good_until_s=over_s) if token.is_good(over_s) else token
        for token in former.tokens[1 - TOKENS_KEPT :]
    )


def change_agent(draft: Draft, command: ChangeAgent) -> Decision:
    """Let an identity do more or less, or give it to another local user. Raises as `add_agent` and `known_agent`.

    Who has sessions open does not become an observer: nobody could renew what they hold.
    """
    identity = known_agent(draft.state, command.name)
    _check_terms(command)
    _check_user(draft.state, command)
    role = identity.role if command.role is None else command.role
    priority = identity.priority if command.priority is None else command.priority
    uid, user = identity.uid, identity.user
    if command.uid is not None:
        uid, user = (None, "") if command.uid == NOBODY else (command.uid, command.user)
    open_ = [one.id for one in sessions_of(draft.state, identity.name)]
    if open_ and not role.may(Role.AGENT):
        raise Denied(
            f"{identity.name} has sessions ({', '.join(open_[:4])}), which an observer cannot keep; end them first "
            "(`leasefs unmount`), or revoke it and add it anew",
            identity=identity.name,
        )
    if (role, priority, uid, user) != (
        identity.role,
        identity.priority,
        identity.uid,
        identity.user,
    ):
        draft.emit(AgentChanged(identity.name, role, priority, command.operator, uid, user))
    return draft.done(agent_answer(draft.state, draft.state.identities[identity.name], draft.now_s))


def rotate_agent(draft: Draft, command: RotateAgent) -> Decision:
    """Another token for an identity. Sent twice, it changes once (P6). Raises as `known_agent`, and InvalidRequest."""
    identity = known_agent(draft.state, command.name)
    _check_token(command)
    if not 0.0 <= command.grace_s <= MAX_GRACE_S:
        raise InvalidRequest(
            f"the former token may be good for 0 to {MAX_GRACE_S:g} s more, not {command.grace_s:g}",
            field="grace_s",
        )
    last = identity.tokens[-1]
    if (last.id, last.sha256) != (command.token_id, command.token_sha256):
        if command.token_id in draft.state.by_token:
            raise Denied("this token's id is taken; make another one")
        token = Token(command.token_id, command.token_sha256, draft.now_s)
        until_s = draft.now_s + command.grace_s
        draft.emit(AgentRotated(identity.name, token, until_s, command.operator))
    return draft.done(agent_answer(draft.state, draft.state.identities[identity.name], draft.now_s))


def revoke_agent(draft: Draft, command: RevokeAgent) -> Decision:
    """End an identity and what its sessions hold. One that is revoked already is no error.

    Raises:
        InvalidRequest: there never was one of this name.
    """
    identity = draft.state.identities.get(command.name)
    if identity is None:
        raise _unknown(command.name)
    if identity.is_live:
        draft.emit(AgentRevoked(identity.name, command.operator))
        _take_all(draft, identity.name, command.operator)
    return draft.done(agent_answer(draft.state, draft.state.identities[command.name], draft.now_s))


def _take_all(draft: Draft, name: str, operator: str) -> None:
    """Take all from the sessions of an identity: first what they wait for, so that none of it is granted to them.

    A session with ground that its holder may still trust stays, to say that it writes no more (P3).
    """
    reason = f"the identity {name} was revoked by {operator}"
    ended = sessions_of(draft.state, name)
    owned = [(one, claim) for one in ended for claim in claims_of(draft.state, one.id)]
    for _, claim in owned:
        if claim.id in draft.state.waiters:
            withdraw(draft, claim, reason)
    for session, claim in owned:
        lease = draft.state.leases.get(claim.id)
        if lease is not None and session.kind == "shell":
            expire(draft, lease, reason)  # no mount trusts it
        elif lease is not None:
            revoke_one(draft, lease, operator)
    for _, claim in owned:
        settle(draft, claim.territory, globs_of(claim.globs))
    for session in ended:
        if session.id not in draft.state.of_session:
            draft.emit(SessionEnded(session.id, session.agent, reason))


def sessions_of(state: State, name: str) -> list[Session]:
    """The sessions that an identity has opened, oldest first; also those that it may only give up."""
    found = [session for session in state.sessions.values() if session.identity == name]
    return sorted(found, key=lambda session: (session.opened_at_s, session.id))


def known_agent(state: State, name: str) -> Identity:
    """The identity of this name. Raises InvalidRequest if there never was one, Denied if it was revoked."""
    identity = state.identities.get(name)
    if identity is None:
        raise _unknown(name)
    if not identity.is_live:
        raise Denied(
            f"the identity {name} was revoked by {identity.revoked_by}; issue it anew: `leasefs agent add {name}`",
            identity=name,
        )
    return identity


def _unknown(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"there is no identity {name[:80]!r}; `leasefs agent list` has all of them", field="name"
    )


def agent_answer(state: State, identity: Identity, now_s: float) -> AgentAnswer:
    """An identity without its tokens."""
    sessions = sessions_of(state, identity.name)
    return AgentAnswer(
        agent=identity.name,
        role=identity.role,
        priority=identity.priority,
        user=identity.user,
        uid=identity.uid,
        added_ago_s=now_s - identity.added_at_s,
        added_by=identity.added_by,
        rotated_ago_s=_ago_s(identity.rotated_at_s, now_s),
        rotated_by=identity.rotated_by,
        revoked_ago_s=_ago_s(identity.revoked_at_s, now_s),
        revoked_by=identity.revoked_by,
        former_token_good_for_s=_grace_s(identity, now_s),
        used_ago_s=_ago_s(identity.opened_at_s, now_s),
        sessions=tuple(one.id for one in sessions if is_live(one, now_s) and not one.revoked_by),
    )


def _ago_s(at_s: float | None, now_s: float) -> float | None:
    return None if at_s is None else now_s - at_s


def _grace_s(identity: Identity, now_s: float) -> float | None:
    """How long the token before the present one is still good; None if it is not."""
    if not identity.is_live:
        return None
    left = [
        token.good_until_s - now_s
        for token in identity.tokens[:-1]
        if token.good_until_s is not None and token.is_good(now_s)
    ]
    return max(left, default=None)


def agents(state: State, now_s: float) -> list[AgentAnswer]:
    """All identities by name, revoked ones too."""
    return [agent_answer(state, state.identities[name], now_s) for name in sorted(state.identities)]


DECIDERS: dict[type[Command], Callable[[Draft, Any], Decision]] = {
    AddAgent: add_agent,
    ChangeAgent: change_agent,
    RotateAgent: rotate_agent,
    RevokeAgent: revoke_agent,
}
