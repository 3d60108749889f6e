"""P8, P9: whoever comes after dead mounts of a tree, or was there beside them, sees to what they left."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client.paths import state_dir
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.kept import rescue_ids, restored
from leasefs.testing.own_world import World, is_gone, own_world
from leasefs.testing.random_writer import state_of
from leasefs.testing.uncommitted import agree, git, ledger_intents, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from leasefs.client import api

pytestmark = [pytest.mark.mount, pytest.mark.chaos]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        source = f"{world.root}/source"
        new_repository(source)
        Path(source, "a").write_text("as it was\n")
        git(source, "add", "-A")
        git(source, "commit", "-qm", "first")
        yield world


def mount(world: World, name: str, *, dies: bool = False) -> AbstractContextManager[Agent]:
    os.makedirs(f"{world.root}/{name}", exist_ok=True)
    return agent_mount(f"{world.root}/source", f"{world.root}/{name}", name, dies=dies)


def journals() -> list[str]:
    base = f"{state_dir()}/journals"
    return [name for tree in os.listdir(base) for name in os.listdir(f"{base}/{tree}")]


def dies_with_work(world: World, ttl_s: float = 3600) -> api.Body:
    """The lease of a mount that dies before it has told the ledger; held for an hour to come, or not."""
    with mount(world, "agent-07", dies=True) as agent:
        lease = agent.claim("**", ttl_s=ttl_s)
        agent.write("a", "hours of work\n")
        agent.write("new", "more\n")
        agent.kill()
    return lease


def test_what_the_second_dead_mount_took_over_from_the_first_goes_to_the_third(
    world: World,
) -> None:
    """The first one's lease is held all the while, by a session that nobody has ended."""
    dies_with_work(world)
    with mount(world, "agent-08", dies=True) as second:
        agree(second.ledger, f"{world.root}/source")
        eventually(lambda: len(journals()) == 1, what="the first journal's end")
        second.kill()
    git(f"{world.root}/source", "add", "-A")
    git(f"{world.root}/source", "commit", "-qm", "beside all mounts")
    with mount(world, "agent-09") as third:
        assert agree(third.ledger, f"{world.root}/source") == {}


def test_two_mounts_that_begin_at_once_both_live(world: World) -> None:
    lease = dies_with_work(world)
    with ExitStack() as mounts:
        both: list[Agent] = []
        lock = threading.Lock()

        def begin(name: str) -> None:
            agent = mount(world, name)
            begun = agent.__enter__()
            with lock:
                mounts.push(agent)
                both.append(begun)

        beginning = [threading.Thread(target=begin, args=[f"agent-1{n}"]) for n in range(4)]
        for thread in beginning:
            thread.start()
        for thread in beginning:
            thread.join(60)
        assert len(both) == 4
        agree(both[0].ledger, f"{world.root}/source")
        eventually(lambda: len(journals()) == 4, what="the dead one's journal's end")
        assert not any(is_gone(agent.pid) for agent in both)
        assert len(rescue_ids(f"{world.root}/source", lease["lease"])) == 1


def test_a_mount_that_dies_beside_others_is_recovered_by_them(world: World, tmp_path: Path) -> None:
    with mount(world, "agent-08") as survivor:
        lease = dies_with_work(world)
        source = f"{world.root}/source"
        intents = agree(survivor.ledger, source, within_s=40)
        assert {one["agent"] for ones in intents.values() for one in ones} == {"agent-07"}
        kept = eventually(lambda: rescue_ids(source, lease["lease"]), what="the rescue")
        assert restored(source, kept[0], f"{tmp_path}/again") == state_of(source)
        git(source, "commit", "-qam", "some of it")
        eventually(lambda: set(ledger_intents(survivor.ledger)) == {"new"}, what="its end")


@pytest.mark.parametrize("name", ["agent-07", "agent-08"])
def test_whoever_comes_next_and_writes_at_once_destroys_nothing(
    world: World, tmp_path: Path, name: str
) -> None:
    """The next session of the same agent knows as little of it as anybody else's."""
    source = f"{world.root}/source"
    lease = dies_with_work(world, ttl_s=1.0)
    worked = state_of(source)
    os.makedirs(f"{world.root}/{name}", exist_ok=True)
    with agent_mount(source, f"{world.root}/{name}", name, replace=True) as agent:
        assert agent.claim("**", wait=True)["state"] in {"granted", "waiting"}
        eventually(lambda: agent.may_write("a"), what="the lease")
        kept = rescue_ids(source, lease["lease"])
        assert kept, "kept before anything can be written"
        assert restored(source, kept[0], f"{tmp_path}/again") == worked
