"""What many agents want to edit, made up from a seed, and the best that anybody could do with it.

A trace is a list of tasks for each agent, done in their order. A task edits a few files and holds them together;
each edit takes its time. Few files are wanted by nearly everybody (a package's manifest, its lock file, an index
of routes), most by hardly anybody, and an agent keeps to its own packages most of the time.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HOT = {"package.json": 0.025, "package-lock.json": 0.015, "src/routes/index.ts": 0.02}
"""How likely an edit is one of these."""
PACKAGES = 60
FILES_OF_A_PACKAGE = 40
# How likely an edit is in one of the two packages that are the agent's own at the time.
_AT_HOME = 0.7
_EDIT_S = (0.05, 0.5)
# One file mostly, sometimes two or three.
_SIZES = (1, 1, 1, 1, 1, 1, 1, 2, 2, 3)


class Edit(NamedTuple):
    """One file, and how long its editing takes."""

    path: str
    work_s: float


class Task(NamedTuple):
    """What is edited together."""

    edits: tuple[Edit, ...]

    @property
    def work_s(self) -> float:
        """How long the task takes once it has its files."""
        return sum(edit.work_s for edit in self.edits)


Trace = list[list[Task]]


def trace(agents: int, work_s: float, seed: int) -> Trace:
    """Tasks for each agent, `work_s` seconds of work or a little more."""
    # Nothing here is a secret.
    return [_tasks(random.Random(f"{seed}/{agent}"), work_s) for agent in range(agents)]  # noqa: S311


def _tasks(dice: random.Random, work_s: float) -> list[Task]:
    homes = dice.sample(range(PACKAGES), 2)
    tasks: list[Task] = []
    while sum(task.work_s for task in tasks) < work_s:
        paths = {_path(dice, homes) for _ in range(dice.choice(_SIZES))}
        tasks.append(Task(tuple(Edit(path, dice.uniform(*_EDIT_S)) for path in sorted(paths))))
    return tasks


def _path(dice: random.Random, homes: Sequence[int]) -> str:
    place = dice.random()
    for path, share in HOT.items():
        if place < share:
            return path
        place -= share
    package = dice.choice(homes) if dice.random() < _AT_HOME else dice.randrange(PACKAGES)
    # Also within a package some files are wanted more than others.
    number = min(int(dice.paretovariate(0.7)) - 1, FILES_OF_A_PACKAGE - 1)
    return f"packages/p{package:02}/src/f{number:02}.ts"


def files(of: Trace) -> list[str]:
    """All files of a trace."""
    return sorted({edit.path for tasks in of for task in tasks for edit in task.edits})


def total_s(of: Trace) -> float:
    """All work of a trace: how long one agent alone would take."""
    return sum(task.work_s for tasks in of for task in tasks)


def bound_s(of: Trace) -> float:
    """No schedule ends earlier than this.

    Nobody does two tasks at once, and a file is in one hand at a time, for its whole task. The longest of all these
    is the bound; it may be out of reach.
    """
    wanted: Counter[str] = Counter()
    for tasks in of:
        for task in tasks:
            for edit in task.edits:
                wanted[edit.path] += task.work_s  # type: ignore[assignment]
    longest = max(sum(task.work_s for task in tasks) for tasks in of)
    return max(longest, *wanted.values())


def planned_s(of: Trace, *, tries: int = 0) -> float:
    """How long the best takes of the plans that were looked at, made with all of the trace in sight.

    Whenever a file comes free, of the agents that could go on the one with the most work left goes first; or the one
    whose files are wanted most by others. From the first of these `tries` others are made, each by moving a few
    tasks forward or back in the order that did best so far.
    """
    rest = [_rest(tasks) for tasks in of]
    wanted = Counter(edit.path for tasks in of for task in tasks for edit in task.edits)

    def by_rest(agent: int, at: int) -> float:
        return -rest[agent][at]

    def by_demand(agent: int, at: int) -> float:
        return -max(wanted[edit.path] for edit in of[agent][at].edits)

    best_s = min(_listed(of, by_rest), _listed(of, by_demand))
    return min(best_s, _improved_s(of, rest, tries)) if tries else best_s


def _improved_s(of: Trace, rest: list[list[float]], tries: int) -> float:
    # Nothing here is a secret; the same trace gets the same plan.
    dice = random.Random(0)  # noqa: S311
    order = [[-left for left in agent] for agent in rest]
    best_s = _listed(of, lambda agent, at: order[agent][at])
    for _ in range(tries):
        trial = [list(agent) for agent in order]
        for _ in range(dice.choice((1, 5, 30, 200))):
            agent = dice.randrange(len(of))
            at = dice.randrange(len(of[agent]))
            trial[agent][at] = dice.gauss(0.0, dice.choice((0.5, 3.0, 10.0))) - rest[agent][at]
        took_s = _listed(of, lambda agent, at, trial=trial: trial[agent][at])  # type: ignore[misc]
        if took_s <= best_s:
            best_s, order = took_s, trial
    return best_s


def edit_by_edit(of: Trace) -> Trace:
    """The same work where each file is held for its own edit alone, as by agents that claim nothing."""
    return [[Task((edit,)) for task in tasks for edit in task.edits] for tasks in of]


def fair_s(of: Trace) -> float:
    """How long it takes where who comes first goes first, passing nobody who came earlier and wants the same (P6).

    The queue itself takes no time: what a real one lacks to this is what it costs.
    """
    return _listed(of, None)


def _rest(tasks: list[Task]) -> list[float]:
    left, found = 0.0, []
    for task in reversed(tasks):
        left += task.work_s
        found.append(left)
    return found[::-1]


def _listed(of: Trace, order: Callable[[int, int], float] | None) -> float:
    """A list schedule: at each moment everybody who can begin the next task does, in this order.

    Without an order, in which they came; and then nobody passes one before who waits for some of the same.
    """
    at, came_s = [0] * len(of), [0.0] * len(of)
    busy, running = set[str](), list[tuple[float, int]]()
    idle, now_s = {agent for agent, tasks in enumerate(of) if tasks}, 0.0

    def place(agent: int) -> tuple[float, int]:
        return (came_s[agent] if order is None else order(agent, at[agent])), agent

    while True:
        spoken_for = set(busy)
        for agent in sorted(idle, key=place):
            task = of[agent][at[agent]]
            paths = {edit.path for edit in task.edits}
            if not paths & spoken_for:
                busy |= paths
                spoken_for |= paths
                idle.discard(agent)
                heapq.heappush(running, (now_s + task.work_s, agent))
            elif order is None:
                spoken_for |= paths
        if not running:
            return now_s
        now_s, done = heapq.heappop(running)
        busy -= {edit.path for edit in of[done][at[done]].edits}
        at[done] += 1
        came_s[done] = now_s
        if at[done] < len(of[done]):
            idle.add(done)


def jain(shares: Iterable[float]) -> float:
    """Jain's index of fairness: 1 if all have the same, 1/n if one has all."""
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
