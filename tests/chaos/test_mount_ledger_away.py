"""P12: with the ledger away, writes go on inside leases whose trust has time left."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.core.errors import LedgerUnavailable
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.ledger_process import LedgerProcess
from leasefs.testing.own_world import World, own_world
from leasefs.testing.restarts.writers import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.chaos]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        os.makedirs(f"{world.root}/repo/src")
        yield world


def _pid_of_ledger(world: World) -> int:
    pid = eventually(world.ledger_pid)
    assert pid is not None
    return pid


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_writes_go_on_through_kills_of_the_embedded_ledger(world: World, kills: int) -> None:
    """The mount starts it again by itself; session, lease and token stay the same."""
    repo = f"{world.root}/repo"
    with agent_mount(repo, repo) as agent, Writer(agent, "src") as tool:
        lease = agent.claim("src/**", ttl_s=10)
        tool.refused.clear()
        for _ in range(kills):
            tool.goes_on()
            former = _pid_of_ledger(world)
            os.kill(former, signal.SIGKILL)
            tool.goes_on()
            eventually(lambda former=former: world.ledger_pid() not in (None, former))  # type: ignore[misc]
        eventually(lambda: agent.control.send(api.mount())["ledger_reachable"])
        assert agent.state_of(lease) == "granted"
        assert [held["token"] for held in agent.held()] == [lease["token"]]
        assert agent.claim("other")["state"] == "granted"
        assert len(agent.ledger.send(api.sessions())["sessions"]) == 1
        tool.goes_on()


def test_without_a_ledger_trust_runs_out_and_comes_back_with_it(world: World) -> None:
    repo = f"{world.root}/repo"
    with LedgerProcess(world.root) as ledger:
        url = f"unix:{ledger.socket_path}"
        with agent_mount(repo, repo, ledger=url) as agent:
            lease = agent.claim("src/**", ttl_s=4)
            agent.write("src/a")
            ledger.kill()
            killed_at_s = time.monotonic()
            agent.write("src/a")
            with pytest.raises(LedgerUnavailable):
                agent.claim("other")
            with open(f"{repo}/src/a", "a") as file:
                last_written_s = _write_until_refused(agent)
                assert 1 < last_written_s - killed_at_s < 4
                with pytest.raises(PermissionError):
                    os.write(file.fileno(), b"x")
                with LedgerProcess(world.root):
                    eventually(lambda: agent.may_write("src/a"), what="the lease's return")
                    os.write(file.fileno(), b"x")
                    assert [held["token"] for held in agent.held()] == [lease["token"]]


def _write_until_refused(agent: Agent) -> float:
    """When the last write that passed was begun."""
    began_s = written_s = time.monotonic()
    while agent.may_write("src/a"):
        written_s, began_s = began_s, time.monotonic()
        assert began_s - written_s < 30
        time.sleep(0.02)
    return written_s


def test_a_frozen_ledger_blocks_no_write_inside_trust(world: World) -> None:
    repo = f"{world.root}/repo"
    with agent_mount(repo, repo) as agent:
        agent.claim("src/**", ttl_s=30)
        pid = _pid_of_ledger(world)
        os.kill(pid, signal.SIGSTOP)
        try:
            began_s = time.monotonic()
            for number in range(100):
                agent.write(f"src/{number}")
            assert not agent.may_write("elsewhere")
            assert time.monotonic() - began_s < 5
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_release_while_the_ledger_is_away_closes_the_ground_at_once(world: World) -> None:
    repo = f"{world.root}/repo"
    with (
        LedgerProcess(world.root) as ledger,
        agent_mount(repo, repo, ledger=f"unix:{ledger.socket_path}") as agent,
    ):
        lease = agent.claim("src/**", ttl_s=3600)
        ledger.kill()
        with pytest.raises(LedgerUnavailable, match="nothing is written under"):
            agent.release(lease)
        assert not agent.may_write("src/a")
        with LedgerProcess(world.root):
            eventually(lambda: agent.state_of(lease) == "ended", what="the release")
