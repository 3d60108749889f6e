"""Git's settings come with a mount and go with it, whatever ends it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.mount_trees import environment

if TYPE_CHECKING:
    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


def git(tree: str, *arguments: str) -> str:
    """What git says, warnings included."""
    return subprocess.run(
        ["git", "-C", tree, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout


def config(tree: str) -> bytes:
    return Path(tree, ".git/config").read_bytes()


def is_on(agent: Agent) -> bool:
    return "leasefs" in git(agent.root, "config", "core.fsmonitor")


@pytest.fixture
def tree(repo: str) -> str:
    git(repo, "init", "-q")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "x")
    return repo


@pytest.fixture
def beside(world: World) -> str:
    path = f"{world.root}/beside"
    os.mkdir(path)
    return path


def test_in_place(tree: str) -> None:
    before = config(tree)
    with agent_mount(tree, tree) as agent:
        assert is_on(agent)
        told = json.loads(Path(tree, ".leasefs/mount.json").read_bytes())
        assert told["fsmonitor"] == "on"
        assert git(tree, "status", "--porcelain") == ""
    assert config(tree) == before


def test_two_mounts_of_one_tree(tree: str, world: World, beside: str) -> None:
    before = config(tree)
    other = f"{world.root}/other"
    os.mkdir(other)
    with agent_mount(tree, beside, "a") as first:
        with agent_mount(tree, other, "b") as second:
            assert is_on(first)
            assert is_on(second)
        assert is_on(first)
    assert config(tree) == before


def test_git_on_the_bare_tree_has_nothing_to_say_during_and_after(tree: str, beside: str) -> None:
    """A list of untracked files that belongs to another path would make it warn at each status."""
    with agent_mount(tree, beside) as agent:
        for _ in range(2):
            assert git(agent.root, "status", "--porcelain") == ""
            assert git(tree, "status", "--porcelain") == ""
        assert git(agent.root, "status", "--porcelain") == ""
    for _ in range(2):
        assert git(tree, "status", "--porcelain") == ""


def test_not_wanted(tree: str) -> None:
    before = config(tree)
    about = start_mount(MountConfig(tree, tree, "agent-07", "test", fsmonitor=False))
    agent = Agent(about)
    try:
        assert about["fsmonitor"] == "off: not wanted"
        assert config(tree) == before
    finally:
        agent.stop()


def test_somebodys_own_is_left_alone_and_told(tree: str) -> None:
    git(tree, "config", "core.fsmonitor", "false")
    before = config(tree)
    with agent_mount(tree, tree) as agent:
        assert agent.about["fsmonitor"] == "off: core.fsmonitor is set already"
        assert config(tree) == before
    assert config(tree) == before


def test_where_there_is_no_repository(repo: str) -> None:
    with agent_mount(repo, repo) as agent:
        assert agent.about["fsmonitor"] == "off: no git directory"


def test_what_a_killed_mount_left_goes_with_the_next(tree: str) -> None:
    before = config(tree)
    with agent_mount(tree, tree, dies=True) as agent:
        agent.kill()
    assert config(tree) != before
    assert git(tree, "status", "--porcelain") == ""
    with agent_mount(tree, tree, replace=True) as again:
        assert is_on(again)
    assert config(tree) == before
