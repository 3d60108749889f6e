"""Faults at random, from a seed: which, where, and how long each lasts. When they strike is the machine's affair."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chaos_runs.agents import AgentKeeper
    from chaos_runs.cables import Cables
    from chaos_runs.ledger import LedgerKeeper
    from chaos_runs.mounts import MountKeeper
    from chaos_runs.nemeses.nemesis import Nemesis
    from chaos_runs.world import World

_AT_ONCE = 4


@dataclass
class Storm:
    """What is there to be struck."""

    world: World
    ledger: LedgerKeeper
    mounts: Mapping[str, MountKeeper]
    agents: Mapping[str, AgentKeeper]
    cables: Cables
    over: threading.Event = field(default_factory=threading.Event)
    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def fault(self, kind: str, target: str) -> Iterator[None]:
        """A fault that was made, until it is made good: written down and counted."""
        with self._lock:
            self.counts[kind] += 1
        began_s = time.clock_gettime(time.CLOCK_MONOTONIC)
        self._note({"kind": kind, "target": target, "at_s": began_s})
        yield
        lasted_s = time.clock_gettime(time.CLOCK_MONOTONIC) - began_s
        self._note({"kind": kind, "target": target, "healed_after_s": lasted_s})

    def last(self, seconds: float) -> None:
        """Let a fault last so long, or until the storm is over."""
        self.over.wait(seconds)

    def some_mount(self, dice: random.Random) -> MountKeeper:
        """One of the mounts."""
        return self.mounts[dice.choice(sorted(self.mounts))]

    def _note(self, about: dict[str, object]) -> None:
        with self._lock, open(self.world.at("rec/faults.jsonl"), "a", encoding="ascii") as file:
            file.write(json.dumps(about) + "\n")


def rage(
    storm: Storm, nemeses: Sequence[Nemesis], seed: int, *, seconds: float, per_s: float, most: int
) -> list[str]:
    """Strike until the time is over, or `most` faults were made; returns what failed in doing so."""
    dice = random.Random(seed)
    weights = [one.weight for one in nemeses]
    places = threading.Semaphore(_AT_ONCE)
    threads: list[threading.Thread] = []
    failures: list[str] = []

    def strike(nemesis: Nemesis, own: random.Random) -> None:
        try:
            nemesis.strike(storm, own)
        except Exception as error:  # noqa: BLE001 -- told at the end of the round
            failures.append(f"{nemesis.kind}: {error!r}")
        finally:
            places.release()

    until_s = time.monotonic() + seconds
    is_fault = {one.kind for one in nemeses if one.is_fault}
    try:
        while (left_s := until_s - time.monotonic()) > 0:
            if sum(storm.counts[kind] for kind in is_fault) >= most:
                break
            (nemesis,) = dice.choices(nemeses, weights)
            own, pause_s = random.Random(dice.random()), dice.expovariate(per_s)
            if places.acquire(timeout=left_s):
                threads.append(threading.Thread(target=strike, args=(nemesis, own)))
                threads[-1].start()
            time.sleep(min(pause_s, max(0.0, until_s - time.monotonic())))
    finally:
        storm.over.set()
        for thread in threads:
            thread.join()
    return failures
