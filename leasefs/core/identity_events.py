"""What can happen to the identities that a ledger issues; a part of `leasefs.core.events`."""

from __future__ import annotations

from leasefs.core.event_base import Event
from leasefs.core.records import Identity, Token


class AgentAdded(Event, frozen=True, tag="agent-added"):
    """An operator issued an identity; `identity` says who did. It takes the place of a revoked one of its name."""

    identity: Identity


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
