"""What an agent did and was told, as it wrote it down: a line when it began and a line when it was answered.

Both are one write(2) to a file opened with O_APPEND, so that an agent killed in between leaves the first alone: then
nobody knows what came of the act.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OK = "ok"
"""It was done, and the agent was told so."""
NO = "no"
"""It was refused, and so must have had no effect."""
UNSURE = "unsure"
"""It may have been done: the answer was an error that says nothing, or none came."""

WRITES = frozenset({"append", "save", "reset", "handle", "shell"})
"""Acts that put one line into a file."""
DESTROYS = frozenset({"reset", "unlink", "rename"})
"""Acts after which what was in a file (of a rename: in the one that it replaced) need not be there any more."""


class Act(Struct, frozen=True):
    """One act of an agent. Times are CLOCK_BOOTTIME seconds as the agents' processes read it.

    `line` is the text that it wrote, used once in all of the run; of a rename `other` is the old name. `value` is the
    number that a `count` wrote. `lease` and `token` are what a `claim` or `release` was about.
    """

    agent: str
    number: int
    what: str
    began_s: float
    ended_s: float = float("inf")
    outcome: str = UNSURE
    tree: str = ""
    path: str = ""
    other: str = ""
    line: str = ""
    value: int = 0
    lease: str = ""
    token: int = 0
    told: str = ""

    def shown(self) -> str:
        """One line for whoever reads the evidence."""
        ended = f"{self.ended_s:.3f}" if self.ended_s != float("inf") else "never"
        facts = " ".join(
            f"{name}={value}"
            for name in ("tree", "path", "other", "line", "value", "lease", "token", "told")
            if (value := getattr(self, name))
        )
        return f"{self.agent}#{self.number} {self.what} {self.began_s:.3f}..{ended} {self.outcome} {facts}"


class ActRecorder:
    """Writes the acts of one agent's process down."""

    def __init__(self, path: str, agent: str, first: int, now_s: Callable[[], float]) -> None:
        """Acts are numbered from `first` on, so that no two processes of an agent use a number twice."""
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._agent = agent
        self._next = first
        self._now_s = now_s

    def begin(self, what: str, **facts: Any) -> int:  # noqa: ANN401 -- fields of an Act
        """An act is about to be tried; returns its number."""
        number, self._next = self._next, self._next + 1
        self._write(
            {"agent": self._agent, "number": number, "what": what, "began_s": self._now_s()} | facts
        )
        return number

    def end(self, number: int, outcome: str, **facts: Any) -> None:  # noqa: ANN401 -- fields of an Act
        """What came of it."""
        about = {"agent": self._agent, "number": number, "outcome": outcome}
        self._write(about | {"ended_s": self._now_s()} | facts)

    def _write(self, about: dict[str, Any]) -> None:
        os.write(self._fd, json.dumps(about).encode() + b"\n")


def read_acts(lines: Iterable[str]) -> list[Act]:
    """The acts of a recording, in the order in which they began."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for line in lines:
        about = json.loads(line)
        found.setdefault((about["agent"], about["number"]), {}).update(about)
    acts = [convert(about, Act) for about in found.values()]
    return sorted(acts, key=lambda act: act.began_s)
