"""The daemon that joins session, file system and control socket, on real mounts with a real ledger."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api, find, paths
from leasefs.client.blocking import Link
from leasefs.client.ids import Credentials
from leasefs.core.errors import (
    ClaimConflict,
    Denied,
)
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.refusals import refusal_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


def test_a_claim_opens_the_ground_and_a_release_closes_it(agent: Agent) -> None:
    """P2: a path changes through a mount only while that mount holds an exclusive lease over it."""
    assert refusal_of(agent.write, "src/a") == errno.EACCES
    lease = agent.claim("src/**")
    agent.write("src/a", "mine")
    assert refusal_of(agent.write, "a") == errno.EACCES
    with open(f"{agent.root}/src/b", "a") as file:
        agent.release(lease)
        file.write("late")
        assert refusal_of(file.flush) == errno.ESTALE
        assert refusal_of(file.close) == errno.ESTALE
    assert refusal_of(agent.write, "src/a") == errno.EACCES
    assert Path(agent.root, "src/a").read_text() == "mine"
    assert Path(agent.root, "src/b").read_text() == "x"


def test_the_mount_is_found_from_anywhere_inside(agent: Agent, world: World) -> None:
    found = find.find_mount(f"{agent.root}/src/deep")
    assert found is not None
    assert found == find.live_mounts()[0]._replace(beneath=found.beneath)
    assert (found.agent, found.mountpoint, found.pid) == ("agent-07", agent.root, agent.pid)
    assert found.territory == f"path:{agent.root}"
    assert find.find_mount(world.root) is None


def test_a_shell_that_stood_there_before_is_told(
    repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    with agent_mount(repo, repo):
        found = find.find_mount(os.getcwd())
        assert found is not None
        assert found.beneath
        monkeypatch.chdir(repo)
        found = find.find_mount(os.getcwd())
        assert found is not None
        assert not found.beneath
        monkeypatch.chdir("/")


def test_the_control_directory_says_what_is(agent: Agent) -> None:
    control = Path(agent.root, ".leasefs")
    lease = agent.claim("src/**", ttl_s=600)
    refusal_of(agent.write, "a")
    assert (control / "agent").read_text() == "agent-07\n"
    assert json.loads((control / "mount.json").read_text()) == agent.about
    (held,) = json.loads((control / "leases.json").read_text())
    assert (held["id"], held["globs"]) == (lease["lease"], ["src/**"])
    (refused,) = json.loads((control / "refusals.json").read_text())
    assert (refused["path"], refused["errno"], refused["pid"]) == ("a", "EACCES", os.getpid())
    said = agent.control.send(api.mount())
    assert said["leases"][0]["id"] == held["id"]
    assert said["refusals"] == [refused]
    assert said["ledger_reachable"]


def test_refusals_reach_the_history(agent: Agent) -> None:
    """P11."""
    refusal_of(agent.write, "a")
    page = eventually(
        lambda: agent.ledger.send(api.events(types=["writes-refused"]))["events"],
        what="the refusal in the log",
    )
    (refusal,) = page[0]["event"]["refusals"]
    assert (refusal["path"], refusal["errno"], refusal["pid"]) == ("a", "EACCES", os.getpid())


def test_no_secret_leaves_the_daemon(agent: Agent) -> None:
    """Not in argv, environment, any file, or anything that it says."""
    agent.claim("src/**")
    said = json.dumps([agent.about, agent.control.send(api.mount())])
    said += Path(f"/proc/{agent.pid}/cmdline").read_bytes().decode()
    environ = Path(f"/proc/{agent.pid}/environ")
    if os.access(environ, os.R_OK):  # by root alone: the daemon is not dumpable
        said += environ.read_bytes().decode()
    for directory in (paths.state_dir(), paths.runtime_dir()):
        for file in Path(directory).rglob("*"):
            if file.is_file():
                said += file.read_bytes().decode("latin-1")
    # What is that long and hexadecimal (the ledger's hash of the secret, its chain) opens nothing.
    for word in set(re.findall("[0-9a-f]{64}", said)):
        link = Link(agent.about["ledger"], Credentials(agent.about["session"], word))
        with pytest.raises(Denied):
            link.send(api.heartbeat(agent.about["session"]))


def test_two_agents_and_a_lease_handed_over(agent: Agent, repo: str, world: World) -> None:
    """P7: a release reaches the next waiter by push; the lease is in its view before it hears of it."""
    os.mkdir(f"{world.root}/other")
    # The tree beneath is covered by the first mount, so the second agent's is made from its source's fd.
    lease = agent.claim("src/**")
    with own_tree_mount(world, "agent-08", agent.about["territory"]) as other:
        with pytest.raises(ClaimConflict, match="held by agent-07"):
            other.claim("src/a")
        waiting = other.claim("src/a", wait=True)
        assert waiting["state"] == "waiting"
        agent.release(lease)
        granted = other.control.send(api.lease(waiting["lease"], wait_s=20))
        assert granted["state"] == "granted"
        other.write("src/a")


def own_tree_mount(world: World, name: str, territory: str) -> AbstractContextManager[Agent]:
    root = f"{world.root}/tree-of-{name}"
    os.makedirs(f"{root}/src")
    Path(root, "src/a").write_text("x")
    Path(root, ".leasefs.toml").write_text(f"territory = {json.dumps(territory)}\n")
    return agent_mount(root, root, name)


def test_an_open_file_and_a_running_command_keep_a_lease(agent: Agent) -> None:
    """P4, in short: the real figures are in tests/chaos."""
    by_file, by_command = agent.claim("src/a", ttl_s=1), agent.claim("src/b", ttl_s=1)
    idle = agent.claim("src/deep/c", ttl_s=1)
    stream = agent.control.stream(
        api.use(by_command["lease"], pid=os.getpid(), program="make docs")
    )
    with open(f"{agent.root}/src/a", "a"):
        assert next(stream).type == "using"
        eventually(lambda: agent.state_of(idle) == "lapsed", what="the idle lease's end")
        assert agent.state_of(by_file) == "granted"
        assert agent.state_of(by_command) == "granted"
        kept_by = {held["globs"][0]: held["kept_by"] for held in agent.held()}
        assert kept_by["src/a"] == [f"{os.getpid()} {_comm()} src/a"]
        assert kept_by["src/b"] == [f"{os.getpid()} make docs"]
    stream.close()  # type: ignore[attr-defined]
    for lease in (by_file, by_command):
        eventually(lambda lease=lease: agent.state_of(lease) == "lapsed")  # type: ignore[misc]


def _comm() -> str:
    return Path("/proc/self/comm").read_text().strip()


def test_a_file_open_for_reading_keeps_nothing(agent: Agent) -> None:
    lease = agent.claim("src/a", ttl_s=1)
    with open(f"{agent.root}/src/a"):
        eventually(lambda: agent.state_of(lease) == "lapsed", what="the end of an unused lease")


def test_courtesy_the_next_write_brings_a_lapsed_lease_back(agent: Agent) -> None:
    """P5: given back to its holder with the same token."""
    lease = agent.claim("src/a", ttl_s=1)
    eventually(lambda: agent.state_of(lease) == "lapsed")
    agent.write("src/a")
    assert agent.state_of(lease) == "granted"
    assert agent.held()[0]["token"] == lease["token"]
