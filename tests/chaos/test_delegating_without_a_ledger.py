"""A ledger that dies while parts change hands: nobody writes where somebody else may, and all is known afterwards (P1, P12)."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import World, own_world
from leasefs.testing.uncommitted import git, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.chaos]

ROUNDS = 4


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


@pytest.fixture
def pair(world: World) -> Iterator[tuple[Agent, Agent]]:
    tree = f"{world.root}/tree"
    new_repository(tree)
    os.makedirs(f"{tree}/src")
    Path(tree, "src/part").write_text("x\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "first")
    for name in ("planner", "worker"):
        os.mkdir(f"{world.root}/{name}")
    with (
        agent_mount(tree, f"{world.root}/planner", "planner") as planner,
        agent_mount(tree, f"{world.root}/worker", "worker") as worker,
    ):
        yield planner, worker


def may_write(agent: Agent) -> bool:
    """Whether an open for writing passes; nothing is changed, so nothing stands in the way of the next round."""
    try:
        os.close(os.open(f"{agent.root}/src/part", os.O_WRONLY))
    except OSError:
        return False
    return True


def parts(agent: Agent) -> list[api.Body]:
    found: list[api.Body] = agent.control.send(api.mount())["delegations"]
    return found


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1])
def test_the_ledger_is_killed_while_parts_change_hands(
    world: World, pair: tuple[Agent, Agent], after_s: float
) -> None:
    planner, worker = pair
    lease = planner.claim("src/**", ttl_s=600)
    for _ in range(ROUNDS):
        asking = threading.Thread(target=_delegate, args=(planner, lease["lease"]))
        asking.start()
        threading.Event().wait(after_s)
        world.kill_ledger()
        asking.join()
        eventually(
            lambda: all(one["lease"] for one in parts(planner)), 60, what="what became of it"
        )
        for _ in range(20):
            if not may_write(planner):
                break
            assert not may_write(worker)
        for part in parts(planner):
            eventually(lambda: may_write(worker), what="the part with its worker")
            assert not may_write(planner)
            world.kill_ledger()
            with contextlib.suppress(LeasefsError):
                worker.control.send(api.release(part["lease"], key=new_key()))
        eventually(lambda: may_write(planner), 60, what="the ground with the planner")
        assert not may_write(worker)
        assert parts(planner) == []


def _delegate(planner: Agent, lease: str) -> None:
    call = api_scheduling.delegate(lease, ["src/part"], to="worker", key=new_key())
    with contextlib.suppress(LeasefsError):
        planner.control.send(call)
