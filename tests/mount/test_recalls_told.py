"""P7, P10: who is recalled, refused, or handed ground is told of it: by file, by command, by refusal, with the grant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.core.errors import InvalidRequest
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.recalled import (
    Two,
    granted,
    new_tree,
    recall_is,
    recalls,
    two_mounts,
    urgent,
)
from leasefs.testing.uncommitted import git, ledger_intents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


@pytest.fixture
def tree(world: World) -> str:
    return new_tree(world.root)


@pytest.fixture
def two(tree: str, world: World) -> Iterator[Two]:
    with two_mounts(tree, world.root) as two:
        yield two


def test_who_is_refused_learns_who_recalled_the_ground_and_that_it_comes_back(two: Two) -> None:
    loop, person = two.loop, two.person
    loop.claim("src/**", ttl_s=600)
    fd = os.open(f"{loop.root}/src/b", os.O_WRONLY)
    granted(person, urgent(person, "src/**"))
    again = recall_is(loop, "waiting")["again"]
    with pytest.raises(OSError, match="Stale"):
        os.write(fd, b"late")
    os.close(fd)
    with pytest.raises(PermissionError):
        loop.write("src/a")
    refusals = loop.control.send(api.mount())["refusals"]
    assert [(one["path"], one["errno"]) for one in refusals] == [
        ("src/a", "EACCES"),
        ("src/b", "ESTALE"),
    ]
    for refusal in refusals:
        assert refusal["next"].startswith("recalled by person: person claimed src/**")
        assert f"it comes back to you as {again}" in refusal["next"]
    with pytest.raises(PermissionError):
        loop.write("beside")
    refusal = loop.control.send(api.mount())["refusals"][0]
    assert "claim it first" in refusal["next"]


def test_a_holder_asks_for_more_time_through_its_mount(two: Two) -> None:
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    with Path(loop.root, "src/a").open("w"):
        urgent(person, "src/**", within_s=100)
        recall_is(loop, "asked")
        answer = loop.control.send(api_scheduling.more_time(lease["lease"], 50, key=new_key()))
        assert 140 < answer["recall"]["yields_in_s"] <= 150
        eventually(lambda: 140 < recalls(loop)[0]["yields_in_s"] <= 150)
        assert recalls(loop)[0]["may_ask_for_s"] == 0


def test_whoever_mounts_has_a_command_run_at_each_recall(tree: str, world: World) -> None:
    """It runs in the mount, which serves it, and is told what it is about."""
    for name in ("loop", "person"):
        os.mkdir(f"{world.root}/{name}")
    said = f"{world.root}/said"
    hook = f'echo "$LEASEFS_LEASE $LEASEFS_RECALL_BY $LEASEFS_RECALL_WITHIN_S $PWD" > {said}; git commit -qam wip'
    root = f"{world.root}/loop"
    config = MountConfig(tree, root, "loop", "test", on_recall=hook)
    loop = Agent(start_mount(config))
    try:
        with agent_mount(tree, f"{world.root}/person", "person") as person:
            lease = loop.claim("src/**", ttl_s=600)
            Path(loop.root, "src/a").write_text("work\n")
            granted(person, urgent(person, "src/**", within_s=300))
            assert git(tree, "show", "HEAD:src/a") == b"work\n"
        told = Path(said).read_text().split()
        assert (told[0], told[1], told[3]) == (lease["lease"], "person", root)
        assert 290 <= int(told[2]) <= 300
    finally:
        loop.stop()


def test_a_repository_cannot_have_a_command_run(tree: str, world: World) -> None:
    Path(tree, ".leasefs.toml").write_text('on_recall = "touch /tmp/pwned"\n')
    os.mkdir(f"{world.root}/loop")
    with (
        pytest.raises(InvalidRequest, match="on_recall"),
        agent_mount(tree, f"{world.root}/loop", "l"),
    ):
        raise AssertionError("it must not mount")


def test_the_next_holder_is_told_the_note_and_the_commit_of_the_one_before(two: Two) -> None:
    """Hand-over: the grant is pushed into the waiter's mount with what it inherits."""
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    Path(loop.root, "src/a").write_text("done\n")
    waiting = person.claim("src/**", ttl_s=600, wait=True)
    git(loop.root, "commit", "-qm", "a", "--", "src/a")
    loop.control.send(api.release(lease["lease"], key=new_key(), note="a is done"))
    eventually(lambda: person.may_write("src/b"), what="the pushed grant")
    mine = granted(person, waiting)
    head = git(two.tree, "rev-parse", "HEAD").decode().strip()
    note = mine["inherits"]["note"]
    assert (note["text"], note["commit"], note["agent"]) == ("a is done", head, "loop")
    assert "src/a" not in ledger_intents(person.ledger)


def test_a_run_is_told_and_goes_on_using_what_comes_back(two: Two) -> None:
    """P4: what keeps a lease alive keeps the one alive that its ground comes back with."""
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    stream = loop.control.stream(api.use(lease["lease"], pid=os.getpid(), program="make"))
    assert next(stream).type == "using"
    mine = granted(person, urgent(person, "src/**"))
    told = [next(stream)]
    while told[-1].type != "yielded":
        told.append(next(stream))
    recall = recall_is(loop, "waiting")
    person.release(mine)
    back, using = next(stream), next(stream)
    assert (back.type, back.data["lease"]) == ("back", recall["again"])
    assert (using.type, using.data["lease"]) == ("using", recall["again"])
    eventually(lambda: any("make" in user for one in loop.held() for user in one["kept_by"]))
    loop.release(lease)
    assert next(stream).type == "lost"
