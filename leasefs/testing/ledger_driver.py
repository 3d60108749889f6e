"""The ledger's rules in one hand: run commands one after the other, with a clock that is moved."""

from __future__ import annotations

from typing import Any

from leasefs.core.answers import (
    HeartbeatAnswer,
    IntentAnswer,
    IntentsAnswer,
    LeaseAnswer,
    SettledAnswer,
)
from leasefs.core.commands import (
    AnyCommand,
    Beat,
    ClaimLease,
    Heartbeat,
    Note,
    OpenSession,
    ReleaseLease,
    ReportIntents,
    SettleIntents,
    Settlement,
    Tick,
)
from leasefs.core.intents import IntentKind, Outcome
from leasefs.core.ledger import Decision, State, decide
from leasefs.core.renewal import lease_due_at_s
from leasefs.core.views import WantedIntents, intents, lease_answer


class LedgerDriver:
    """Runs commands one after the other and keeps what happened."""

    def __init__(self) -> None:
        self.state = State()
        self.now_s = 1000.0
        self.happened: list[str] = []
        self.last_events: tuple[Any, ...] = ()
        for agent in "abc":
            self.open(agent)

    def run(self, command: AnyCommand) -> Decision:
        """Decide, and go on from the state it leads to."""
        decision = decide(self.state, command, self.now_s)
        self.state = decision.state
        self.last_events = decision.events
        self.happened = [type(recorded.event).__name__ for recorded in decision.events]
        return decision

    def open(
        self,
        agent: str,
        suffix: str = "",
        **more: Any,  # noqa: ANN401 -- fields of a command
    ) -> Decision:
        """Open a session for an agent; `more` are fields of OpenSession."""
        facts: dict[str, Any] = {"kind": "mount", "host": "host", "pid": 1} | more
        command = OpenSession(
            session=f"session-{agent}{suffix}",
            secret_sha256="0" * 64,
            agent=agent,
            harness="shell",
            territory="t",
            **facts,
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

    def release(
        self,
        agent: str,
        lease: str,
        key: str = "",
        **more: Any,  # noqa: ANN401 -- fields of a command
    ) -> LeaseAnswer:
        """Release, or raise the refusal; `more` are fields of ReleaseLease."""
        answer = self.answered(
            ReleaseLease(f"session-{agent}", key or f"key-{self.state.seq}", lease, **more)
        )
        assert isinstance(answer, LeaseAnswer)
        return answer

    def answered(self, command: AnyCommand) -> Any:  # noqa: ANN401 -- each command has its own answer
        """What the ledger says. Raises the refusal."""
        decision = self.run(command)
        if decision.error:
            raise decision.error
        return decision.answer

    def note(
        self,
        agent: str,
        lease: LeaseAnswer,
        *paths: str,
        kind: IntentKind = IntentKind.MODIFY,
        wall_s: float | None = None,
        tree: str = "t-1",
        recovered: bool = False,
    ) -> IntentsAnswer:
        """Report that these paths changed under this lease. Raises the refusal."""
        at_s = self.now_s if wall_s is None else wall_s
        notes = tuple(Note(path, kind, lease.lease, lease.token, at_s) for path in paths)
        command = ReportIntents(
            f"session-{agent}", tree, "host", "/work", notes, recovered, lease.agent * recovered
        )
        answer = self.answered(command)
        assert isinstance(answer, IntentsAnswer)
        return answer

    def settle(
        self, agent: str, outcome: Outcome, *paths: str, commit: str = "", tree: str = "t-1"
    ) -> SettledAnswer:
        """Report what git says of these paths."""
        settled = tuple(Settlement(path, outcome, commit) for path in paths)
        answer = self.answered(SettleIntents(f"session-{agent}", tree, settled))
        assert isinstance(answer, SettledAnswer)
        return answer

    def intents(self, **wanted: Any) -> list[IntentAnswer]:  # noqa: ANN401 -- of WantedIntents
        """All that are wanted, in order."""
        found = intents(self.state, WantedIntents(**wanted))
        return sorted(found, key=lambda one: (one.path, one.tree, one.lease, one.agent))

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
