"""One agent: does at random what agents and their tools do, and writes down what it did and what it was told.

Run as `python -m chaos_runs.agent`; a line of JSON on standard input says who it is, and the end of that input tells it
to stop.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from chaos_runs.agent_files import Files
from chaos_runs.agent_leases import Leases
from chaos_runs.agent_tools import Tools
from chaos_runs.world import COUNTS, HOT, LOGS, MIDDLE
from leasefs.testing.chaos.acts import ActRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE_S = (0.0, 0.06)
_PATIENCE_S = 0.4


def boottime_s() -> float:
    """As the processes of the run read it: with the shim's jumps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Agent:
    """What it may do, and how often."""

    def __init__(self, told: dict[str, Any], over: threading.Event) -> None:
        self.over = over
        self.dice = random.Random(told["seed"])
        self.name: str = told["agent"]
        record = ActRecorder(told["acts"], self.name, told["first"], boottime_s)
        place = told["mountpoint"]
        self.files = Files(record, self.dice, place, told["tree"])
        self.leases = Leases(record, self.dice, place, told["others"], over)
        self.tools = Tools(record, self.dice, place, told["tree"], self.leases)
        self.asks = told["unleased"] in {"deny", "wait"}
        self._replaced = [*HOT, *MIDDLE, *(f"own/{self.name}/{number}" for number in range(3))]

    def work(self) -> None:
        """Until told to stop."""
        doings = self._doings()
        weights = list(doings.values())
        while not self.over.wait(self.dice.uniform(*_PAUSE_S)):
            self.dice.choices(list(doings), weights)[0]()
            if self.files.is_dead:
                self.over.wait(_PATIENCE_S)
        self.files.let_go()
        self.leases.give_all_back()

    def probe(self, within_s: float) -> bool:
        """Everybody wants the same once more: whoever asks is served, and may write."""
        self.files.let_go()
        lease = self.leases.claim_patiently(["hot/**", "mid/**", "log/**"], within_s)
        done = lease != "" and all(self.files.append(path) for path in (HOT[0], MIDDLE[0], LOGS[0]))
        self.leases.give_all_back()
        return done

    def _doings(self) -> dict[Callable[[], object], float]:
        path = self._path
        doings: dict[Callable[[], object], float] = {
            lambda: self.files.append(path(LOGS)): 8,
            self._new_file: 5,
            lambda: self.files.save(path()): 6,
            lambda: self.files.by_handle(path(LOGS)): 6,
            lambda: self.files.count(path(COUNTS)): 8,
            lambda: self.files.reset(path()): 1,
            lambda: self.files.unlink(path()): 0.5,
            self._rename: 1,
            lambda: self.tools.shell_append(path(LOGS)): 2,
            lambda: self.tools.sed(path()): 1.5,
            self._commit: 2,
        }
        if self.asks:
            doings |= {
                lambda: self.leases.claim(self._globs()): 16,
                self.leases.release_some: 7,
                lambda: self.leases.claim_by_command(self._globs()): 2,
                lambda: self.leases.claim_and_die(self._globs()): 1,
                self.leases.delegate_some: 1.5,
                self.leases.downgrade_some: 0.5,
                lambda: self.tools.run(path(LOGS)): 1.5,
            }
        return doings

    def _path(self, of: list[str] | None = None) -> str:
        """Mostly one that is held: else hardly any write would pass."""
        paths = of or self._replaced
        if self.asks and self.dice.random() < 0.9:
            paths = self.leases.held_of(paths) or paths
        return self.dice.choice(paths)

    def _globs(self) -> list[str]:
        wishes = [
            *([path] for path in (*HOT, *LOGS, *COUNTS)),
            ["count/**"],
            ["log/**"],
            ["mid/**", "hot/1"],
            [self.dice.choice(MIDDLE)],
            [f"own/{self.name}/**"],
            [f"own/{self.name}/**", self.dice.choice(MIDDLE)],
        ]
        return self.dice.choice(wishes)

    def _new_file(self) -> None:
        """Which nobody touches again: what is forgotten of it is not made good by a later write."""
        name = f"new{self.dice.randrange(10**9)}"
        paths = [f"{place}/{name}" for place in (f"own/{self.name}", "mid", "log", "hot")]
        self.files.append(self._path(paths))

    def _rename(self) -> None:
        old, new = self.dice.sample(range(3), 2)
        self.files.rename(f"own/{self.name}/{old}", f"own/{self.name}/{new}")

    def _commit(self) -> None:
        paths = [*self._replaced, *LOGS, *COUNTS]
        held = self.leases.held_of(paths) if self.asks else self.dice.sample(self._replaced, 2)
        if held:
            self.tools.commit(self.dice.sample(held, min(3, len(held))))


def main() -> int:
    """Work, or probe."""
    told: dict[str, Any] = json.loads(sys.stdin.readline())
    over = threading.Event()

    def wait_for_stop() -> None:
        while os.read(0, 4096):
            pass
        over.set()

    agent = Agent(told, over)
    if told["mode"] == "probe":
        return 0 if agent.probe(told["within_s"]) else 1
    threading.Thread(target=wait_for_stop, daemon=True).start()
    agent.work()
    return 0


if __name__ == "__main__":
    sys.exit(main())
