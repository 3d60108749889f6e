"""Who held which ground and when it could be written, by the ledger's log alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from leasefs.core.events import Downgraded, Expired, Granted, Released, Renewed
from leasefs.core.globs import globs_of
from leasefs.core.intents import HANDED_ON
from leasefs.core.lease import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasefs.core.events import Recorded
    from leasefs.core.globs import Glob
    from leasefs.core.records import Claim
    from leasefs.testing.chaos.acts import Act
    from leasefs.testing.chaos.ledger_time import LedgerTime

Span = tuple[float, float]
"""From, to: CLOCK_BOOTTIME seconds of the agents."""


@dataclass
class Hold:
    """One lease from its grant to its end.

    `tokens` are those that it had, the first one first. `spans` is when it could be trusted (P3): each renewal is good
    for its TTL. `handed_on` says that what was uncommitted at its end was left for others to build upon.
    """

    claim: Claim
    tokens: list[int]
    start_s: float
    spans: list[Span]
    end_s: float = float("inf")
    exclusive_until_s: float = float("inf")
    handed_on: bool = False
    parts: list[Hold] = field(default_factory=list)

    @cached_property
    def globs(self) -> tuple[Glob, ...]:
        """What it covers."""
        return globs_of(self.claim.globs)

    def covers(self, path: str) -> bool:
        """Whether the path is on its ground."""
        raw = path.encode("utf-8", "surrogateescape")
        return any(glob.matches(raw) for glob in self.globs)

    def handed_on_after(self, act: Act) -> bool:
        """Whether the act may have been made under it, and what came of it was handed on."""
        return (
            self.handed_on
            and self.claim.agent == act.agent
            and self.covers(act.path)
            and self.start_s <= act.ended_s
            and act.began_s <= self.end_s
        )

    def shown(self) -> str:
        """One line for whoever reads the evidence."""
        claim = self.claim
        spans = ", ".join(f"{low:.3f}..{high:.3f}" for low, high in merged(self.spans))
        return (
            f"{claim.agent} held {claim.id} (token {self.tokens[-1]}, {claim.mode.value} {' '.join(claim.globs)}) "
            f"{self.start_s:.3f}..{self.end_s:.3f}, good in {spans}"
        )

    def held_at(self, path: str) -> list[Span]:
        """When it was its holder's to write there, trusted or not: but for what was given to others meanwhile."""
        end_s = min(self.end_s, self.exclusive_until_s)
        if self.claim.mode is not Mode.EXCLUSIVE or not self.covers(path):
            return []
        return without([(self.start_s, end_s)], self.given_away(path))

    def writable_at(self, path: str) -> list[Span]:
        """When a write there could pass."""
        return within(self.held_at(path), merged(self.spans))

    def given_away(self, path: str) -> list[Span]:
        """When parts of it there were others'."""
        spans: list[Span] = []
        for part in self.parts:
            if part.covers(path):
                spans.append((part.start_s, part.end_s))
            spans += part.given_away(path)
        return spans


def holds_of(log: Sequence[Recorded], time: LedgerTime) -> list[Hold]:
    """All leases of a log, in the order of their tokens."""
    found: dict[str, Hold] = {}
    for recorded in log:
        at_s = time.boottime_s(recorded)
        event = recorded.event
        match event:
            case Granted(claim=claim):
                hold = Hold(claim, [recorded.seq], at_s, [(at_s, at_s + claim.ttl_s)])
                found[claim.id] = hold
                if claim.parent in found:
                    found[claim.parent].parts.append(hold)
                if claim.replaces in found:
                    found[claim.replaces].end_s = at_s
            case Renewed(leases=renewals):
                for one in renewals:
                    ends_s = at_s + one.expires_at_s - recorded.at_s
                    found[one.lease].spans.append((at_s, ends_s))
            case Released(lease=lease, left=left):
                found[lease].end_s = at_s
                found[lease].handed_on = left == HANDED_ON
            case Expired(lease=lease):
                found[lease].end_s = at_s
            case Downgraded(lease=lease):
                found[lease].exclusive_until_s = at_s
                found[lease].tokens.append(recorded.seq)
            case _:
                pass
    return list(found.values())


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time, in spans that do not touch."""
    out: list[Span] = []
    for low, high in sorted(spans):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return out


def within(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """What is in both."""
    others = list(others)
    found = [(max(low, from_s), min(high, to_s)) for low, high in spans for from_s, to_s in others]
    return merged((low, high) for low, high in found if low <= high)


def without(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """What is in these and not in the others."""
    left = list(spans)
    for from_s, to_s in others:
        cut: list[Span] = []
        for low, high in left:
            if to_s <= low or high <= from_s:
                cut.append((low, high))
                continue
            if low < from_s:
                cut.append((low, from_s))
            if to_s < high:
                cut.append((to_s, high))
        left = cut
    return left
