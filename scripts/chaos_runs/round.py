"""One round: a world, a storm over it, the calm after it, and the judgement."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from chaos_runs.agents import AgentKeeper
from chaos_runs.cables import Cables
from chaos_runs.calm import calm, uncommitted, waiting
from chaos_runs.gathering import copied, kept_in, read_log, texts_of
from chaos_runs.ledger import LedgerKeeper
from chaos_runs.leftovers import leftovers, processes
from chaos_runs.mounts import MountKeeper
from chaos_runs.nemeses import all_nemeses
from chaos_runs.storm import Storm, rage
from chaos_runs.world import World
from leasefs.testing.chaos.acts import read_acts
from leasefs.testing.chaos.history import History, Violation
from leasefs.testing.chaos.verdict import violations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos_runs.nemeses.nemesis import Nemesis


class Settings(NamedTuple):
    """What is wanted of each round. `kinds` are the nemeses wanted; none named: all."""

    agents: int
    seconds: float
    per_s: float
    most: int
    kinds: tuple[str, ...]
    directory: str


class Outcome(NamedTuple):
    """What came of a round. `left_out` says which kinds of faults could not be made, and why."""

    seed: int
    faults: Counter[str]
    acts: Counter[str]
    events: int
    found: Sequence[Violation]
    left_out: Sequence[str]
    recording: str


def run_round(settings: Settings, seed: int) -> Outcome:
    """Run one round. The recording is kept if something was found, and only then."""
    root = tempfile.mkdtemp(prefix="chaos-", dir=settings.directory)
    world = World(root, settings.agents)
    try:
        outcome = _stormed(settings, seed, world)
    except (KeyboardInterrupt, SystemExit):
        _clear(world)
        shutil.rmtree(root)
        raise
    except BaseException:
        _clear(world)
        raise
    stuck = _clear(world)
    found = [*outcome.found, *(Violation("left behind", (said,)) for said in stuck)]
    if not found:
        shutil.rmtree(root)
    return outcome._replace(found=found)


def _clear(world: World) -> list[str]:
    """However it ended, nothing goes on; returns what stands against that."""
    _end_processes(world.root)
    _unmount_all(world.root)
    return world.take_down()


def _stormed(settings: Settings, seed: int, world: World) -> Outcome:
    storm = _set_up(world, seed)
    nemeses = all_nemeses()
    wanted = [one for one in nemeses if not settings.kinds or one.kind in settings.kinds]
    unfit = {one.kind: why for one in wanted if (why := one.unfit(storm))}
    fit: list[Nemesis] = [one for one in wanted if one.kind not in unfit]
    try:
        failures = rage(
            storm, fit, seed, seconds=settings.seconds, per_s=settings.per_s, most=settings.most
        )
        troubles = [Violation("a fault failed", (failure,)) for failure in failures]
        troubles += calm(storm)
        work = uncommitted(storm)
        queue = waiting(storm)
        troubles += _taken_down(storm)
    finally:
        _stop_keepers(storm)
    log, problems = read_log(copied(storm.ledger.store, world.at("rec/store")))
    troubles += [Violation("the store is damaged", (problem,)) for problem in problems]
    with open(world.at("rec/acts.jsonl"), encoding="ascii") as file:
        acts = read_acts(file)
    history = History(
        acts=acts,
        log=log,
        texts={tree: texts_of(world, tree) for tree in world.trees()},
        kept={tree: kept_in(world, tree) for tree in world.trees()},
        dirty=work.dirty,
        intents=work.intents,
        rescued=work.rescued,
        ahead_s=storm.ledger.ahead_s,
        waiting=queue,
        troubles=[*troubles, *leftovers(world)],
    )
    return Outcome(
        seed=seed,
        faults=_faults(storm, nemeses),
        acts=_counted(history),
        events=len(log),
        found=violations(history),
        left_out=[*(f"{kind}: {why}" for kind, why in unfit.items()), *world.makeshifts()],
        recording=world.root,
    )


def _set_up(world: World, seed: int) -> Storm:
    ledger = LedgerKeeper(world)
    ends = {name: world.at(f"c/{name}") for name in world.names}
    cables = Cables(ends, ledger.socket)
    mounts = {name: MountKeeper(world, name, ends[name]) for name in world.names}
    agents = {name: AgentKeeper(world, mount, seed) for name, mount in mounts.items()}
    storm = Storm(world, ledger, mounts, agents, cables)
    ledger.begin()
    _must(ledger.wait_for(30), f"the ledger did not start: {ledger.said}")
    for mount in mounts.values():
        mount.begin()
    for mount in mounts.values():
        _must(mount.wait_for(120), f"the mount of {mount.name} did not start: {mount.said}")
    for agent in agents.values():
        agent.begin()
    return storm


def _must(done: bool, what: str) -> None:
    if not done:
        raise RuntimeError(what)


def _taken_down(storm: Storm) -> list[Violation]:
    """The orderly end; what stands against it."""
    found = []
    for mount in storm.mounts.values():
        mount.finish()
        if said := mount.unmount():
            found.append(Violation("a mount does not go away", (mount.name, said)))
    storm.ledger.finish()
    if storm.ledger.process is not None:
        storm.ledger.process.send(signal.SIGTERM)
        if not _gone(storm.ledger):
            found.append(Violation("the ledger does not stop", ()))
    storm.cables.close()
    return found


def _gone(ledger: LedgerKeeper) -> bool:
    until_s = time.monotonic() + 20
    while ledger.serves() and time.monotonic() < until_s:
        time.sleep(0.05)
    return not ledger.serves()


def _stop_keepers(storm: Storm) -> None:
    for keeper in (*storm.agents.values(), *storm.mounts.values(), storm.ledger):
        keeper.stay_down()
        keeper.finish()


def _end_processes(root: str) -> None:
    """After a failure, or Ctrl-C: none of ours may stay."""
    for shown in list(processes(root)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(shown.split()[1].rstrip(":")), signal.SIGKILL)


def _unmount_all(root: str) -> None:
    """Whatever is still mounted below, the newest first."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        places = [line.split(" ")[4] for line in file]
    for place in reversed(places):
        if place.startswith(f"{root}/m/"):
            command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-uz"]
            subprocess.run([*command, place], check=False, capture_output=True)


def _faults(storm: Storm, nemeses: Sequence[Nemesis]) -> Counter[str]:
    faults = storm.counts.copy()
    for one in nemeses:
        if not one.is_fault:
            del faults[one.kind]
    return faults


def _counted(history: History) -> Counter[str]:
    return Counter(f"{act.what} {act.outcome}" for act in history.acts)
