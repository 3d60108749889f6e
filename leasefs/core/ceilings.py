"""How much one client may have at once, so that it cannot fill the ledger for all: sessions, and claims that wait.

The client is the identity behind a session; where there is none, for what waits, the session itself. Zero is no ceiling.
What a ledger allows is told with each command, because it is the server's to decide and changes with its options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.errors import OverCap

if TYPE_CHECKING:
    from leasefs.core.records import Session
    from leasefs.core.state import State


def check_sessions(state: State, identity: str, most: int) -> None:
    """Raise OverCap if the identity has as many sessions as it may have already."""
    if not most or not identity:
        return
    has = sum(session.identity == identity for session in state.sessions.values())
    if has >= most:
        raise OverCap(
            f"{identity} has {has} sessions already, and this ledger lets one identity have {most}; end one (unmount, or "
            "release what a shell holds), or have its operator raise the limit `sessions`",
            limit="sessions",
            most=most,
            client=identity,
        )


def waiting(state: State, session: Session, most: int) -> OverCap | None:
    """Why no further claim of this client may wait: as many wait already as may."""
    if not most:
        return None
    client = session.identity or session.id
    wait = sum(_client_of(state, claim.session) == client for claim in state.waiters.values())
    if wait < most:
        return None
    name = session.identity or session.agent
    return OverCap(
        f"{wait} claims of {name} wait already, and this ledger lets one client have {most}; withdraw some (`leasefs queue`, "
        "`leasefs release`), or have its operator raise the limit `waiting`",
        limit="waiting",
        most=most,
        client=name,
    )


def _client_of(state: State, session_id: str) -> str:
    session = state.sessions.get(session_id)
    return session_id if session is None else session.identity or session_id
