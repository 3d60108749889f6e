"""The ledger's rules in one hand: run commands one after the other, with a clock that is moved."""

from __future__ import annotations

from typing import Any

from leasefs.core.answers import HeartbeatAnswer, LeaseAnswer
from leasefs.core.commands import (
    AnyCommand,
    Beat,
    ClaimLease,
    Heartbeat,
    OpenSession,
    ReleaseLease,
    Tick,
)
from leasefs.core.ledger import Decision, State, decide
from leasefs.core.renewal import lease_due_at_s
from leasefs.core.views import lease_answer


class LedgerDriver:
    """Runs commands one after the other and keeps what happened."""

    def __init__(self) -> None:
        self.state = State()
        self.now_s = 1000.0
        self.happened: list[str] = []
        for agent in "abc":
            self.open(agent)

    def run(self, command: AnyCommand) -> Decision:
        """Decide, and go on from the state it leads to."""
        decision = decide(self.state, command, self.now_s)
        self.state = decision.state
        self.happened = [type(recorded.event).__name__ for recorded in decision.events]
        return decision

    def open(
        self,
        agent: str,
        suffix: str = "",
        **more: Any,  # noqa: ANN401 -- fields of a command
    ) -> Decision:
        """Open a session for an agent; `more` are fields of OpenSession."""
        command = OpenSession(
            session=f"session-{agent}{suffix}",
            secret_sha256="0" * 64,
            agent=agent,
            harness="shell",
            territory="t",
            kind="mount",
            host="host",
            pid=1,
            **more,
        )
        return self.run(command)

    def claim(
        self,
        agent: str,
        *globs: str,
        key: str = "",
        **more: Any,  # noqa: ANN401 -- fields of a command
    ) -> LeaseAnswer:
        """Claim for an agent; `more` are fields of ClaimLease. Raises the refusal."""
        decision = self.run(
            ClaimLease(f"session-{agent}", key or f"key-{self.state.seq}", globs, **more)
        )
        if decision.error:
            raise decision.error
        assert isinstance(decision.answer, LeaseAnswer)
        return decision.answer

    def release(self, agent: str, lease: str, key: str = "") -> LeaseAnswer:
        """Release, or raise the refusal."""
        decision = self.run(ReleaseLease(f"session-{agent}", key or f"key-{self.state.seq}", lease))
        if decision.error:
            raise decision.error
        assert isinstance(decision.answer, LeaseAnswer)
        return decision.answer

    def beat(self, agent: str, *granted: LeaseAnswer) -> HeartbeatAnswer:
        """Renew these leases."""
        beats = tuple(Beat(item.lease, item.token) for item in granted)
        decision = self.run(Heartbeat(f"session-{agent}", beats))
        assert isinstance(decision.answer, HeartbeatAnswer)
        return decision.answer

    def pass_s(self, seconds: float) -> None:
        """Let time pass, then look at every deadline as a server would."""
        self.now_s += seconds
        due = [
            id_ for id_ in self.state.leases if (lease_due_at_s(self.state, id_) or 0) <= self.now_s
        ]
        self.run(Tick(tuple(due), tuple(self.state.sessions)))

    def look(self, lease: LeaseAnswer) -> LeaseAnswer:
        """What has become of a claim."""
        return lease_answer(self.state, lease.lease, self.now_s)
