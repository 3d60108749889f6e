"""P8: `kill -9` of the mount, and of the ledger, loses no intent and no acknowledged byte, and invents none."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import World, own_world
from leasefs.testing.random_writer import MountGone, RandomWriter, State, differences, state_of
from leasefs.testing.uncommitted import agree, git, new_repository

pytestmark = [pytest.mark.mount, pytest.mark.chaos]

TTL_S = 4.0


class Fleet:
    """Mounts of one tree, one after the other, each killed while it is written through."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self.source = f"{world.root}/source"
        self.mountpoint = f"{world.root}/mount"
        self.calls = self.lives = 0
        self.names = ["agent-07", "agent-08"]
        self.at_head: State = {}
        # Who changed each path last, as far as can be told.
        self.authors: dict[str, set[str]] = {}
        os.mkdir(self.mountpoint)
        new_repository(self.source)
        for name in ("a", "src/b", "src/deep/c.txt", "x/d"):
            path = f"{self.source}/{name}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(name)
        with open(f"{self.source}/.gitignore", "w", encoding="utf-8") as file:
            file.write("*.log*\n")
        self.commit()

    def commit(self) -> None:
        """Beside all mounts."""
        git(self.source, "add", "-A")
        git(self.source, "commit", "-qm", "some", ok=(0, 1))
        self.at_head = state_of(self.source)

    def one_life(self) -> None:
        """Mount, write at random, kill; then look at the tree."""
        # An agent that comes back frees at once what its dead session held; for another one it has to lapse.
        if self.lives % 6 == 5:
            self.names.reverse()
        self.lives += 1
        name = self.names[0]
        with agent_mount(self.source, self.mountpoint, name, replace=True, dies=True) as agent:
            claim_all(agent)
            if self.rng.random() < 0.35:
                self.compare(agent)
            self.write_until_killed(agent, name)

    def write_until_killed(self, agent: Agent, name: str) -> None:
        writer = RandomWriter(agent.root, state_of(self.source), self.rng)
        assassin = threading.Timer(self.rng.uniform(0.0, 0.4), agent.kill)
        killers = [assassin]
        if self.rng.random() < 0.25:
            killers.append(threading.Timer(self.rng.uniform(0.0, 0.3), self.world.kill_ledger))
        for killer in killers:
            killer.start()
        try:
            while True:
                writer.step(self.at_head)
        except MountGone:
            pass
        finally:
            for killer in killers:
                killer.join()
            writer.close()
        self.calls += writer.calls
        self.authors |= {path: {name} for path in writer.touched}
        for path in writer.cut_off:
            self.authors.setdefault(path, set()).add(name)
        assert not differences(writer.possible(), state_of(self.source))

    def compare(self, agent: Agent) -> None:
        """Everything that differs from HEAD has its intent, and nothing else has one."""
        for path, intents in agree(agent.ledger, self.source).items():
            agents = {intent["agent"] for intent in intents}
            assert self.authors[path] & agents, (path, self.authors[path], intents)


def claim_all(agent: Agent) -> None:
    """Whoever died before holds it until the ledger knows."""

    def granted() -> bool:
        try:
            call = api.claim(["**"], key=new_key(), ttl_s=TTL_S)
            return bool(agent.control.send(call)["state"] == "granted")
        except LeasefsError:
            return False

    eventually(granted, 30, "the claim")


def run_kills(world: World, kills: int, seed: int) -> int:
    fleet = Fleet(world, seed)
    for _ in range(kills):
        fleet.one_life()
        if fleet.rng.random() < 0.2:
            fleet.commit()
    with agent_mount(fleet.source, fleet.mountpoint, fleet.names[0], replace=True) as last:
        fleet.compare(last)
    assert [str(lock) for lock in Path(fleet.source, ".git").rglob("*.lock")] == []
    git(fleet.source, "fsck", "--strict")
    return fleet.calls


@pytest.mark.parametrize(
    "kills", [pytest.param(15, id="15"), pytest.param(200, id="200", marks=pytest.mark.long)]
)
def test_kills_of_the_mount_lose_no_intent_and_no_byte_and_invent_none(
    tmp_path: Path, kills: int
) -> None:
    began_s = time.monotonic()
    with own_world(str(tmp_path)) as world:
        calls = run_kills(world, kills, seed=int(os.environ.get("LEASEFS_SEED", "1")))
    assert calls > 20 * kills, time.monotonic() - began_s
