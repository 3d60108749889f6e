"""P8, P9: what was acknowledged is somewhere, and a number that agents count up together has missed nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from leasefs.testing.chaos.acts import DESTROYS, NO, OK, UNSURE, WRITES
from leasefs.testing.chaos.history import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leasefs.testing.chaos.acts import Act
    from leasefs.testing.chaos.history import History
    from leasefs.testing.chaos.holds import Hold


def check_bytes(history: History, holds: Sequence[Hold]) -> Iterator[Violation]:
    """Everything about what must be there."""
    yield from _lost_lines(history, holds)
    yield from _lost_counts(history)
    yield from _lost_intents(history)


def _lost_lines(history: History, holds: Sequence[Hold]) -> Iterator[Violation]:
    """Each line is in a file, in a commit or in a rescue, unless its own agent did away with it, or an heir to whom it was handed on."""
    there = {
        tree: _lines([*texts.values(), *history.kept.get(tree, ())])
        for tree, texts in history.texts.items()
    }
    destroyed = _Destroyed(history.acts)
    for act in history.acts:
        if act.what not in WRITES or act.outcome != OK or act.tree not in there:
            continue
        if act.line in there[act.tree] or destroyed.by_its_agent(act):
            continue
        if not destroyed.by_an_heir(act, holds):
            others = [one.shown() for one in destroyed.on(act)]
            yield Violation("acknowledged bytes lost", (act.shown(), *others[:6]))


def _lines(texts: Iterable[bytes]) -> set[str]:
    return {line for text in texts for line in text.decode("utf-8", "replace").split("\n")}


class _Destroyed:
    """Who did away with what was in a file, whatever it was called by then."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self._on: dict[tuple[str, str], list[Act]] = defaultdict(list)
        self._moved: dict[tuple[str, str], set[str]] = defaultdict(set)
        for act in acts:
            if act.what in DESTROYS and act.outcome != NO:
                self._on[act.tree, act.path].append(act)
            if act.what == "rename" and act.outcome != NO:
                self._moved[act.tree, act.other].add(act.path)

    def on(self, act: Act) -> list[Act]:
        """What may have done away with this act's line."""
        names, new = {act.path}, [act.path]
        while new:
            new = sorted(self._moved[act.tree, new.pop()] - names) + new
            names.update(new)
        found = [one for name in sorted(names) for one in self._on[act.tree, name]]
        return [one for one in found if one.ended_s >= act.began_s]

    def by_its_agent(self, act: Act) -> bool:
        """Whether its own agent may have, which is no loss."""
        return any(one.agent == act.agent for one in self.on(act))

    def by_an_heir(self, act: Act, holds: Sequence[Hold]) -> bool:
        """Whether it was handed on with its lease, which is the agent's word that others may do with it what they like."""
        ends_s = [hold.end_s for hold in holds if hold.handed_on_after(act)]
        return bool(ends_s) and any(one.ended_s >= min(ends_s) for one in self.on(act))


def _lost_counts(history: History) -> Iterator[Violation]:
    """Each number was written once, and up to the last one none is missing."""
    counts: dict[tuple[str, str], list[Act]] = defaultdict(list)
    for act in history.acts:
        if act.what == "count" and act.outcome != NO:
            counts[act.tree, act.path].append(act)
    for (tree, path), acts in counts.items():
        if tree not in history.texts:
            continue
        last = _number(history.texts[tree].get(path, b""))
        by_value: dict[int, list[Act]] = defaultdict(list)
        for act in acts:
            by_value[act.value].append(act)
        for value in range(1, max([last, *by_value]) + 1):
            yield from _one_number(f"{tree}/{path}", value, last, by_value.get(value, []))


def _one_number(where: str, value: int, last: int, acts: Sequence[Act]) -> Iterator[Violation]:
    done = [act.shown() for act in acts if act.outcome == OK]
    unsure = [act for act in acts if act.outcome == UNSURE]
    if len(done) > 1:
        yield Violation("a count was lost", (where, *done, f"both wrote {value}"))
    if done and value > last:
        yield Violation("a count was lost", (where, *done, f"the file says {last}"))
    if not done and not unsure and value <= last:
        yield Violation("a count out of nothing", (where, f"nobody wrote {value} of {last}"))


def _number(text: bytes) -> int:
    digits = text.split(b"\n")[0]
    return int(digits) if digits.isdigit() else 0


def _lost_intents(history: History) -> Iterator[Violation]:
    """What is uncommitted is known to the ledger, or lies in a rescue as it is; and nothing else is known (P8, P9)."""
    if history.dirty is None or history.intents is None:
        return
    for tree, path in sorted(history.dirty - history.intents):
        text = history.texts.get(tree, {}).get(path)
        kept = text is None or text in history.kept.get(tree, ())
        if (tree, path) not in history.rescued or not kept:
            yield Violation("a lost intent", (f"{tree}/{path} differs from HEAD",))
    for tree, path in sorted(history.intents - history.dirty):
        yield Violation("an intent of nothing", (f"{tree}/{path} is as HEAD has it",))
