"""Histories that never happened, sound ones: what the judges are judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import convert

from leasefs.core.events import (
    Downgraded,
    Expired,
    Granted,
    LedgerStarted,
    Queued,
    Recorded,
    Released,
    Renewal,
    Renewed,
    Withdrawn,
)
from leasefs.core.lease import Mode
from leasefs.core.records import Claim
from leasefs.testing.chaos.acts import OK, Act
from leasefs.testing.chaos.history import History

if TYPE_CHECKING:
    from leasefs.core.events import AnyEvent

TREE = "tree"
TTL_S = 10.0
TOOK_S = 0.1


class Invented:
    """A ledger, agents and one tree, which do only what they may. Times are the agents' CLOCK_BOOTTIME."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.log: list[Recorded] = []
        self.acts: list[Act] = []
        self.files: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}
        self.kept: list[bytes] = []
        self._offset_s = 5000.0
        self._ahead_s: dict[str, float] = {}
        self.start()

    def start(self, *, ahead_s: float = 0.0, stood_s: float = 0.0) -> None:
        """A server takes over, on a clock that is `ahead_s` ahead, after `stood_s` in which the ledger's time stood still."""
        boot = f"boot+{ahead_s:g}"
        self._ahead_s[boot] = ahead_s
        self.now_s += stood_s
        self._offset_s -= stood_s
        self.record(LedgerStarted("server", boot, 10.0, self.now_s + ahead_s))

    def record(self, event: AnyEvent) -> int:
        """Write an event into the log; its number."""
        seq = len(self.log) + 1
        self.log.append(Recorded(seq, self.now_s + self._offset_s, event))
        return seq

    def grant(
        self,
        agent: str,
        *globs: str,
        mode: Mode = Mode.EXCLUSIVE,
        parent: str = "",
        replaces: str = "",
    ) -> str:
        """A claim that is granted at once, and its maker is told so; the lease."""
        claim = self.claim(agent, *globs, mode=mode, parent=parent, replaces=replaces)
        token = self.record(Granted(claim))
        self.act(agent, "claim", lease=claim.id, token=token)
        return claim.id

    def claim(
        self,
        agent: str,
        *globs: str,
        mode: Mode = Mode.EXCLUSIVE,
        parent: str = "",
        replaces: str = "",
    ) -> Claim:
        """A claim that nobody has decided."""
        number = len(self.log) + 1
        return Claim(
            id=f"L{number}",
            territory="t",
            session=f"session of {agent}",
            agent=agent,
            harness="test",
            globs=globs,
            mode=mode,
            ttl_s=TTL_S,
            priority=0,
            claimed_at_s=self.now_s + self._offset_s,
            claimed_seq=number,
            parent=parent,
            replaces=replaces,
        )

    def renew(self, agent: str, lease: str) -> None:
        """A heartbeat."""
        ends_s = self.now_s + self._offset_s + TTL_S
        self.record(Renewed(f"session of {agent}", (Renewal(lease, ends_s, TTL_S),)))

    def release(self, agent: str, lease: str, left: str = "") -> None:
        """Given back; `left` says what became of what is uncommitted."""
        self.record(Released(lease, agent, 0, "released", left=left))
        self.act(agent, "release", lease=lease)

    def expire(self, agent: str, lease: str) -> None:
        """Taken, or revoked."""
        self.record(Expired(lease, agent, 0, "taken"))

    def downgrade(self, agent: str, lease: str) -> None:
        """Shared from here on."""
        self.record(Downgraded(lease, agent, 0))

    def queue(self, agent: str, *globs: str) -> Claim:
        """A claim that waits."""
        claim = self.claim(agent, *globs)
        self.record(Queued(claim, ()))
        self.act(agent, "claim", lease=claim.id)
        return claim

    def withdraw(self, claim: Claim) -> None:
        """It waits no more."""
        self.record(Withdrawn(claim.id, claim.agent, "withdrawn"))

    def act(self, agent: str, what: str, outcome: str = OK, **facts: str | int) -> Act:
        """An act that takes a moment."""
        about = {"agent": agent, "number": len(self.acts), "what": what, "outcome": outcome}
        times = {"began_s": self.now_s, "ended_s": self.now_s + TOOK_S}
        act = convert({"tree": TREE, **about, **times, **facts}, Act)
        self.acts.append(act)
        self.now_s += 2 * TOOK_S
        return act

    def write(self, agent: str, path: str, what: str = "append") -> Act:
        """A line more; of a `reset`, that line alone."""
        line = f"L{agent}.{len(self.acts)}"
        if what == "reset":
            self.files[path] = []
        self.files.setdefault(path, []).append(line)
        return self.act(agent, what, path=path, line=line)

    def count(self, agent: str, path: str) -> Act:
        """The next number."""
        self.counts[path] = self.counts.get(path, 0) + 1
        return self.act(agent, "count", path=path, value=self.counts[path])

    def history(self) -> History:
        """What there is to be judged."""
        texts = {path: "\n".join(["# head", *lines, ""]) for path, lines in self.files.items()}
        texts |= {path: f"{value:012d}\n" for path, value in self.counts.items()}
        return History(
            acts=tuple(self.acts),
            log=tuple(self.log),
            texts={TREE: {path: text.encode() for path, text in texts.items()}},
            kept={TREE: tuple(self.kept)},
            dirty=frozenset(),
            intents=frozenset(),
            ahead_s=self._ahead_s,
        )
