"""How long a mount is away over its restart: from the end of the old daemon to the first write that the new one answers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.agents import Agent
from leasefs.testing.own_world import is_gone
from leasefs.testing.restarts.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

CLEAN = "clean, SIGTERM and a new mount"
OVER_DEAD = "over a dead one, SIGKILL"
HANGING = "over a dead one, its ledger just begun"
WAYS = (CLEAN, OVER_DEAD, HANGING)
_WITHIN_S = 60.0


def gaps(directory: str, way: str, rounds: int) -> Iterator[float]:
    """Restart a mount that holds a lease so many times; seconds of each gap. The lease is kept (`--keep-leases`)."""
    source, mountpoint = os.path.join(directory, "tree"), os.path.join(directory, "mount")
    os.makedirs(os.path.join(source, "src"))
    os.makedirs(mountpoint)
    place = os.path.join(directory, "ledger")
    os.makedirs(place, mode=0o700)
    ledger = Served(place, passed=True)
    config = MountConfig(
        source,
        mountpoint,
        "agent-07",
        "test",
        ledger=ledger.url,
        over_dead=True,
        keep_leases=True,
        redirects=False,
    )
    agent = Agent(start_mount(config))
    try:
        agent.claim("src/**", ttl_s=600.0)
        for _ in range(rounds):
            agent, gap_s = _restarted(agent, config, way, ledger)
            yield gap_s
    finally:
        agent.stop()
        ledger.end()


def _restarted(agent: Agent, config: MountConfig, way: str, ledger: Served) -> tuple[Agent, float]:
    number = signal.SIGTERM if way == CLEAN else signal.SIGKILL
    if way == HANGING:
        ledger.process.kill()
        ledger.process.wait(_WITHIN_S)
    os.kill(agent.pid, number)
    while not is_gone(agent.pid):
        os.sched_yield()
    began_s = time.monotonic()
    if way == HANGING:
        ledger.process = ledger.begun_again()
    agent = Agent(start_mount(config))
    while not agent.may_write("src/x"):
        if time.monotonic() - began_s > _WITHIN_S:
            raise TimeoutError(f"no write passes after a restart ({way}): {_why(agent)}")
        os.sched_yield()
    return agent, time.monotonic() - began_s


def _why(agent: Agent) -> str:
    return subprocess.run(
        ["leasefs", "why", f"{agent.root}/src/x"], capture_output=True, text=True, check=False
    ).stdout
