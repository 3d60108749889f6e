"""P2, P3, P5: each write that was made was made while its agent held the path, and what lies in a file shows the order.

A file that is only added to is a register in the manner of Jepsen: its lines, from first to last, were written at
times that never go back. Each line could be written only between the beginning and the end of its act, and only while
its agent's lease could be trusted. If no such times exist, somebody wrote after the ground had gone to another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from leasefs.testing.chaos.acts import NO, OK, WRITES
from leasefs.testing.chaos.history import Violation
from leasefs.testing.chaos.holds import within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from leasefs.testing.chaos.acts import Act
    from leasefs.testing.chaos.history import History
    from leasefs.testing.chaos.holds import Hold, Span

SLACK_S = 0.005
"""How far times of two processes are apart that were read one after the other."""
CHANGES = WRITES | {"count", "unlink", "rename"}


class Writable:
    """When each act could have had its effect, by path and agent."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._by_agent: dict[str, list[Hold]] = defaultdict(list)
        for hold in holds:
            self._by_agent[hold.claim.agent].append(hold)
        self._spans: dict[tuple[str, str], list[Span]] = {}

    def at(self, act: Act) -> list[Span]:
        """When it could: empty if never."""
        spans = self._of(act.agent, act.path)
        if act.what == "rename":
            spans = within(spans, self._of(act.agent, act.other))
        return within(spans, [(act.began_s - SLACK_S, act.ended_s + SLACK_S)])

    def shown(self, act: Act) -> list[str]:
        """The holds of its agent on its path that are near it in time."""
        near = [
            hold
            for hold in self._by_agent[act.agent]
            if hold.covers(act.path)
            and hold.start_s < act.ended_s + 60
            and hold.end_s > act.began_s - 60
        ]
        return [hold.shown() for hold in near] or [f"{act.agent} never held {act.path} near then"]

    def _of(self, agent: str, path: str) -> list[Span]:
        key = (agent, path)
        if key not in self._spans:
            spans = [span for hold in self._by_agent[agent] for span in hold.writable_at(path)]
            self._spans[key] = sorted(spans)
        return self._spans[key]


def check_writes(history: History, holds: Sequence[Hold]) -> Iterator[Violation]:
    """Everything about when writes were made."""
    writable = Writable(holds)
    by_line = {act.line: act for act in history.acts if act.line}
    for act in history.acts:
        if act.what in CHANGES and act.outcome == OK and not writable.at(act):
            yield Violation("written outside of any lease", (act.shown(), *writable.shown(act)))
    for tree, texts in history.texts.items():
        for path, text in texts.items():
            yield from _in_order(f"{tree}/{path}", text, by_line, writable)
            yield from _once_and_not_refused(f"{tree}/{path}", text, by_line)
        for number, text in enumerate(history.kept.get(tree, ())):
            yield from _in_order(f"{tree}, kept content {number}", text, by_line, writable)


def lines_of(text: bytes, by_line: Mapping[str, Act]) -> list[Act]:
    """The acts whose lines are in a text, in its order."""
    lines = text.decode("utf-8", "replace").split("\n")
    return [by_line[line] for line in lines if line in by_line]


def _in_order(
    where: str, text: bytes, by_line: Mapping[str, Act], writable: Writable
) -> Iterator[Violation]:
    now_s, before = float("-inf"), None
    for act in lines_of(text, by_line):
        times = [max(low, now_s) for low, high in writable.at(act) if high >= now_s]
        if times:
            now_s, before = min(times), act
        elif not writable.at(act):
            if act.outcome != OK:  # told above otherwise
                evidence = (where, act.shown(), *writable.shown(act))
                yield Violation("written outside of any lease", evidence)
        else:
            after = () if before is None else ("after", before.shown(), *writable.shown(before))
            evidence = (where, act.shown(), *writable.shown(act), *after)
            yield Violation("a fenced writer wrote", evidence)


def _once_and_not_refused(
    where: str, text: bytes, by_line: Mapping[str, Act]
) -> Iterator[Violation]:
    acts = lines_of(text, by_line)
    for act in acts:
        if act.outcome == NO:
            yield Violation("a refused write had an effect", (where, act.shown()))
    for line, times in Counter(act.line for act in acts).items():
        if times > 1:
            yield Violation("written twice", (where, by_line[line].shown(), f"{times} times"))
