"""What operators can ask of a ledger about identities; a part of `leasefs.core.commands`."""

from __future__ import annotations

from leasefs.core.command_base import Command
from leasefs.core.roles import Role


class AddAgent(Command, frozen=True):
    """An operator issues an identity. Its token was made by who asks: the ledger sees the hash alone.

    `priority` None takes what its role usually has.
    """

    operator: str
    name: str
    role: Role
    token_id: str
    token_sha256: str
    uid: int | None = None
    user: str = ""
    priority: int | None = None


class ChangeAgent(Command, frozen=True):
    """An operator changes what an identity may do, or whose it is; None leaves it as it is.

    `uid` and `user` are those of the local user that it belongs to from here on; -1 for nobody.
    """

    operator: str
    name: str
    role: Role | None = None
    priority: int | None = None
    uid: int | None = None
    user: str = ""


class RotateAgent(Command, frozen=True):
    """An operator gives an identity another token; those before are good for `grace_s` more seconds."""

    operator: str
    name: str
    token_id: str
    token_sha256: str
    grace_s: float = 0.0


class RevokeAgent(Command, frozen=True):
    """An operator ends an identity, and all that its sessions hold."""

    operator: str
    name: str


IdentityCommand = AddAgent | ChangeAgent | RotateAgent | RevokeAgent
