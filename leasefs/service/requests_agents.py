"""What operators may send about identities: bodies, as in `requests`. A token itself is never sent, only its hash."""

from __future__ import annotations

import pwd
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from leasefs.core.errors import InvalidRequest
from leasefs.core.identities import NOBODY
from leasefs.core.identity_commands import AddAgent, ChangeAgent, RotateAgent
from leasefs.core.roles import Role
from leasefs.service.requests import Body, Name, OnBehalfOf, SmallInt

if TYPE_CHECKING:
    from leasefs.core.records import Identity

TokenId = Annotated[str, Meta(max_length=64)]
Hash = Annotated[str, Meta(max_length=128)]


class AgentBody(Body, frozen=True):
    """Issue an identity. `user` is a user of the ledger's machine, by name or number; `priority` the highest it may have."""

    agent: Name
    token_id: TokenId
    token_sha256: Hash
    role: Role = Role.AGENT
    user: Name = ""
    priority: SmallInt | None = None
    by: OnBehalfOf = ""

    def command(self, operator: str) -> AddAgent:
        """The command of this operator. Raises InvalidRequest: this machine has no such user."""
        uid = uid_of(self.user) if self.user else None
        _check_not_taken_for_another(self.agent, self.role, uid)
        return AddAgent(
            operator=operator,
            name=self.agent,
            role=self.role,
            token_id=self.token_id,
            token_sha256=self.token_sha256,
            uid=uid,
            user=self.user,
            priority=self.priority,
        )


class ChangeBody(Body, frozen=True):
    """What an identity may do, and whose it is: what is not said stays; an empty `user` is nobody."""

    role: Role | None = None
    priority: SmallInt | None = None
    user: Name | None = None
    by: OnBehalfOf = ""

    def command(self, operator: str, name: str, now: Identity | None) -> ChangeAgent:
        """The command of this operator; `now` is how it is. Raises InvalidRequest as `AgentBody.command`."""
        uid = None if self.user is None else uid_of(self.user) if self.user else NOBODY
        role = self.role or (now.role if now else Role.AGENT)
        bound = now.uid if now and uid is None else uid
        _check_not_taken_for_another(name, role, bound)
        return ChangeAgent(operator, name, self.role, self.priority, uid, self.user or "")


class RotateBody(Body, frozen=True):
    """Another token; those before are good for `grace_s` more seconds."""

    token_id: TokenId
    token_sha256: Hash
    grace_s: float = 0.0
    by: OnBehalfOf = ""

    def command(self, operator: str, name: str) -> RotateAgent:
        """The command of this operator."""
        return RotateAgent(operator, name, self.token_id, self.token_sha256, self.grace_s)


def uid_of(user: str) -> int:
    """The id of a user of this machine. Raises InvalidRequest."""
    if user.isascii() and user.isdecimal() and len(user) <= 10:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise InvalidRequest(
            f"the ledger's machine has no user {user[:80]!r}; name one of its own, or give a user's number",
            field="user",
        ) from None


def _check_not_taken_for_another(name: str, role: Role, uid: int | None) -> None:
    """The history names a local user by their name as well, so what operators do could be laid to the wrong one."""
    if role is not Role.OPERATOR:
        return
    try:
        own = pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return
    if own != uid:
        raise InvalidRequest(
            f"{name} is a user of the ledger's machine, and the history would take one for the other; choose another name, "
            f"or bind it to that user (`--user {name}`)",
            field="agent",
        )
