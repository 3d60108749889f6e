"""What an identity entitles to: sessions under its own name, and claims up to its priority.

Who could edit the store as well (the ledger's own user, root) needs no identity, and opens sessions for any agent; but
those of a name that is an identity's are its sessions, whoever opened them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.errors import Denied
from leasefs.core.roles import HUMAN, Role, priority_name

if TYPE_CHECKING:
    from leasefs.core.commands import OpenSession
    from leasefs.core.records import Identity, Session
    from leasefs.core.state import State


def identity_for(state: State, command: OpenSession) -> str:
    """Whose session it will be; empty if no identity is called so. Raise Denied unless they may have it."""
    name = command.identity or (command.agent if command.agent in state.identities else "")
    if not name:
        return ""
    identity = state.identities.get(name)
    if identity is None or not identity.is_live:
        raise revoked(name, identity)
    if not identity.role.may(Role.AGENT):
        raise Denied(
            f"{identity.name} is an {identity.role}, and a session needs the role agent; an operator issues such an "
            "identity: `leasefs agent add`",
            identity=identity.name,
            role=str(identity.role),
            needs=str(Role.AGENT),
        )
    if command.agent != identity.name:
        raise Denied(
            f"{identity.name} has sessions under its own name only, and not as {command.agent!r}; leave the agent's "
            "name out, or use the token of that agent",
            identity=identity.name,
            agent=command.agent,
        )
    return name


def check_claim(
    state: State, session: Session, priority: int, recall_within_s: float | None = None
) -> None:
    """Raise Denied if the session's identity may not claim so urgently.

    To stop others' writes at once is what `human` does, so that needs to be allowed as well.
    """
    if not session.identity:
        return
    identity = state.identities.get(session.identity)
    if identity is None or not identity.is_live:
        raise revoked(session.identity, identity)
    cold = recall_within_s is not None and recall_within_s <= 0.0
    wanted = max(priority, HUMAN) if cold else priority
    if wanted > identity.priority:
        what = "recall at once" if cold else f"claim with priority {priority_name(priority)}"
        raise Denied(
            f"{identity.name} may not {what}: its priority is {priority_name(identity.priority)} at most; claim with less, "
            f"or ask an operator (`leasefs agent set {identity.name} --priority {priority_name(wanted)}`)",
            identity=identity.name,
            priority=identity.priority,
            needs=wanted,
        )


def revoked(name: str, identity: Identity | None) -> Denied:
    """The refusal of what an identity asks that is none any more."""
    by = f" by {identity.revoked_by}" if identity is not None and identity.revoked_by else ""
    return Denied(
        f"the identity {name} was revoked{by}; an operator issues a new one: `leasefs agent add`",
        identity=name,
    )
