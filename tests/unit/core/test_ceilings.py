"""What one client may have at once, decided with the rest: exactly so much, and nothing twice."""

from __future__ import annotations

import pytest

from leasefs.core.commands import AddAgent, ClaimLease, EndSession, OpenSession
from leasefs.core.errors import OverCap
from leasefs.core.ledger import Decision, decide
from leasefs.core.roles import Role
from leasefs.core.state import State


def done(state: State, *commands: object) -> State:
    for command in commands:
        decision = decide(state, command, 1.0)  # type: ignore[arg-type]
        assert decision.error is None, decision.error
        state = decision.state
    return state


def issued(name: str, number: int) -> AddAgent:
    return AddAgent(
        operator="root",
        name=name,
        role=Role.AGENT,
        token_id=f"{number:012x}",
        token_sha256=f"{number:064x}",
    )


def opening(name: str, territory: str, most: int) -> OpenSession:
    return OpenSession(
        session=f"session-{name}-{territory}",
        secret_sha256="0" * 64,
        agent=name,
        harness="h",
        territory=territory,
        kind="shell",
        host="h",
        pid=1,
        identity=name,
        most_sessions=most,
    )


def refused(state: State, command: object) -> Decision:
    decision = decide(state, command, 1.0)  # type: ignore[arg-type]
    assert isinstance(decision.error, OverCap)
    return decision


@pytest.mark.parametrize("most", [1, 2, 5])
def test_an_identity_has_so_many_sessions_and_no_more(most: int) -> None:
    state = done(State(), issued("ann", 1), issued("bob", 2))
    for number in range(most):
        state = done(state, opening("ann", f"t{number}", most))
    decision = refused(state, opening("ann", "t-more", most))
    assert decision.state.sessions == state.sessions
    assert decision.error is not None
    assert decision.error.details == {"limit": "sessions", "most": most, "client": "ann"}
    # Sent twice it opens one; others have their own; one that ends makes room; without a limit there is none.
    state = done(state, opening("ann", "t0", most), opening("bob", "t0", most))
    ended = done(state, EndSession("session-ann-t0"), opening("ann", "t-more", most))
    assert "session-ann-t-more" in ended.sessions
    assert "session-ann-t-more" in done(state, opening("ann", "t-more", 0)).sessions


@pytest.mark.parametrize("most", [1, 2, 5])
def test_an_identity_waits_so_often_in_all_its_sessions(most: int) -> None:
    state = done(State(), issued("ann", 1), issued("bob", 2))
    for name, territory in (("bob", "t1"), ("bob", "t2"), ("ann", "t1"), ("ann", "t2")):
        state = done(state, opening(name, territory, 0))
    for territory in ("t1", "t2"):
        state = done(state, ClaimLease(f"session-bob-{territory}", "all", ("**",)))

    def wish(number: int, limit: int = most) -> ClaimLease:
        session = f"session-ann-t{1 + number % 2}"
        return ClaimLease(session, f"k{number}", (f"d{number}",), wait=True, most_waiting=limit)

    for number in range(most):
        state = done(state, wish(number))
    assert len(state.waiters) == most
    decision = refused(state, wish(most))
    assert len(decision.state.waiters) == most
    assert [type(one.event).__name__ for one in decision.events] == ["ClaimRefused"]
    assert len(done(state, wish(0)).waiters) == most
    assert len(done(state, wish(most, limit=0)).waiters) == most + 1
    # What need not wait is no matter.
    free = EndSession("session-bob-t1"), EndSession("session-bob-t2")
    assert not done(state, *free, wish(most)).waiters
