"""Agents that know nothing of leases, on real mounts with a real ledger: what becomes of what they write."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import environment, git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


@pytest.fixture
def two(repo: str, world: World) -> Iterator[tuple[Agent, Agent]]:
    """Ada and bo, each with a mount of the tree; both know nothing of leases."""
    for place in ("ada", "bo"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada", unleased="claim+wait") as ada,
        agent_mount(repo, f"{world.root}/bo", "bo", unleased="claim+wait", wait_s=20) as bo,
    ):
        yield ada, bo


def leases(agent: Agent) -> dict[str, str]:
    """Who holds what."""
    found = agent.ledger.send(api.leases())["leases"]
    return {" ".join(one["globs"]): one["agent"] for one in found}


def events(agent: Agent, kind: str) -> list[Any]:
    """The events of a kind."""
    return [one["event"] for one in agent.ledger.send(api.events(types=[kind]))["events"]]


def test_the_first_write_claims_just_that_path_and_it_lapses_soon(two: tuple[Agent, Agent]) -> None:
    ada, _ = two
    with open(f"{ada.root}/src/a", "a") as file:
        file.write("mine")
        file.flush()
        assert leases(ada) == {"src/a": "ada"}
    eventually(lambda: leases(ada) == {}, what="the giving back")
    assert Path(ada.root, "src/a").read_text() == "xmine"


def test_a_writer_waits_for_another_agents_to_end(two: tuple[Agent, Agent]) -> None:
    ada, bo = two
    with open(f"{ada.root}/src/a", "a") as file:
        file.write("ada ")
        file.flush()
        writer = subprocess.Popen(["sh", "-c", f"echo bo >> {bo.root}/src/a"])
        queue = eventually(lambda: ada.ledger.send(api.queue())["waiters"])
        assert [one["agent"] for one in queue] == ["bo"]
        # In the meantime nothing else waits.
        bo.write("src/b", "bo")
        assert writer.poll() is None
        file.write("to the end ")
    assert writer.wait(timeout=10) == 0
    assert Path(ada.root, "src/a").read_text() == "xada to the end bo\n"


@pytest.fixture
def observing(repo: str, world: World) -> Iterator[tuple[Agent, Agent]]:
    """Ada holds leases; cy's mount only observes."""
    for place in ("ada", "cy"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada") as ada,
        agent_mount(repo, f"{world.root}/cy", "cy", unleased="observe") as cy,
    ):
        yield ada, cy


def test_what_is_observed_passes_and_is_told(observing: tuple[Agent, Agent]) -> None:
    """In the mount, in the ledger's history, and to whoever holds the ground; who enforces goes on to do so."""
    ada, cy = observing
    lease = ada.claim("src/a")
    cy.write("src/a", "cy")
    cy.write("new", "cy")
    assert Path(cy.root, "src/a").read_text() == "cy"
    said = Path(cy.root, ".leasefs/refusals").read_text().splitlines()
    assert len(said) == 2
    assert all("passed, as this mount only observes" in line for line in said)

    def observed() -> set[str]:
        refused = [one for event in events(ada, "writes-refused") for one in event["refusals"]]
        return {one["path"] for one in refused if one["observed"]}

    def told() -> set[str]:
        found = [one for one in events(ada, "foreign-writes") if one["how"] == "observed"]
        return {change["path"] for event in found for change in event["changes"]}

    for heard in (observed, told):
        eventually(lambda heard=heard: heard() == {"src/a", "new"}, what=heard.__name__)
    foreign = eventually(lambda: Path(ada.root, ".leasefs/foreign").read_text())
    assert (
        f"src/a modified through a mount that only observes, though {lease['lease']} holds it"
        in foreign
    )
    assert ada.ledger.send(api.intents(agent="cy"))["intents"] == []
    assert not ada.may_write("src/b")
    assert leases(ada) == {"src/a": "ada"}


def test_git_commits_what_the_agent_wrote_and_nothing_of_others(repo: str, world: World) -> None:
    """In a shared tree; the leases that the writes claimed are given back by then."""
    tree = Path(repo)
    git(tree, "init", "-q", ".")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "base")
    for place in ("ada", "bo"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada", unleased="claim+wait") as ada,
        agent_mount(repo, f"{world.root}/bo", "bo", unleased="claim+wait") as bo,
    ):
        ada.write("src/a", "ada")
        bo.write("src/b", "bo")
        eventually(lambda: leases(ada) == {}, what="the giving back")
        assert tried(ada, "git", "commit", "-qam", "all of it") != 0
        assert tried(ada, "git", "checkout", "-q", ".") != 0
        assert Path(ada.root, "src/b").read_text() == "bo"
        assert tried(ada, "git", "commit", "-qm", "mine", "--", "src/a") == 0
        assert git(Path(ada.root), "show", "--format=", "--name-only", "HEAD").split() == ["src/a"]
        assert tried(bo, "git", "add", "src/b") == 0
        assert tried(bo, "git", "commit", "-qm", "mine") == 0
    assert git(tree, "status", "--porcelain") == ""


def tried(agent: Agent, *command: str) -> int:
    """The exit status of a command in the agent's mount."""
    return subprocess.run(
        command, cwd=agent.root, env=environment(), capture_output=True, check=False
    ).returncode
