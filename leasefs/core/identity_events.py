"""What can happen to the identities that a ledger issues; a part of `leasefs.core.events`."""

from __future__ import annotations

from leasefs.core.event_base import Event
from leasefs.core.records import Identity, Token
from leasefs.core.roles import Role


class AgentAdded(Event, frozen=True, tag="agent-added"):
    """An operator issued an identity; `identity` says who did. It takes the place of a revoked one of its name."""

    identity: Identity


class AgentChanged(Event, frozen=True, tag="agent-changed"):
    """What an identity may do, or whose it is, is this from here on."""

    agent: str
    role: Role
    priority: int
    by: str
    uid: int | None = None
    user: str = ""


class AgentRotated(Event, frozen=True, tag="agent-rotated"):
    """It has another token from here on; those before are good until `good_until_s`, if they were so long."""

    agent: str
    token: Token
    good_until_s: float
    by: str


class AgentRevoked(Event, frozen=True, tag="agent-revoked"):
    """No token of it is good any more, and its sessions may only give up what they hold."""

    agent: str
    by: str


IdentityEvent = AgentAdded | AgentChanged | AgentRotated | AgentRevoked
