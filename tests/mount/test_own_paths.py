"""A mount never waits for itself: what its daemon needs by path does not lie beneath it (P12)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import h11
import pytest

from leasefs.client import api
from leasefs.core.errors import NotMounted
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.agents import agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import git

if TYPE_CHECKING:
    from leasefs.testing.own_world import World

pytestmark = [pytest.mark.mount]


@pytest.fixture
def tree(world: World) -> str:
    root = f"{world.root}/tree"
    os.makedirs(f"{root}/bin")
    os.makedirs(f"{root}/lib")
    git(Path(root), "init", "-q")
    git(Path(root), "commit", "-q", "--allow-empty", "-m", "x")
    return root


def _install_a_part_into(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What leasefs imports comes from the tree, as from a project's own virtual environment."""
    assert h11.__file__ is not None
    shutil.copytree(os.path.dirname(h11.__file__), f"{tree}/lib/h11")
    monkeypatch.setenv("PYTHONPATH", f"{tree}/lib")


def _refused(tree: str, ledger: str = "") -> str:
    with pytest.raises(NotMounted) as refused:
        start_mount(MountConfig(tree, tree, "ada", "test", ledger=ledger))
    assert "mount on an empty directory outside" in refused.value.message
    assert not os.path.ismount(tree)
    return refused.value.message


@pytest.mark.parametrize("name", ["XDG_STATE_HOME", "XDG_RUNTIME_DIR"])
def test_its_state_is_not_beneath_it(
    world: World, tree: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    os.mkdir(f"{tree}/state", 0o700)
    os.symlink(f"{tree}/state", f"{world.root}/link")
    monkeypatch.setenv(name, f"{world.root}/link")
    assert name in _refused(tree)


def test_its_ledger_is_not_beneath_it(tree: str) -> None:
    assert f"{tree}/ledger.sock" in _refused(tree, f"unix:{tree}/ledger.sock")


def test_its_code_is_not_beneath_it(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _install_a_part_into(tree, monkeypatch)
    assert f"{tree}/lib/h11" in _refused(tree)


def test_all_of_that_may_be_in_a_tree_that_is_mounted_elsewhere(
    world: World, tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_a_part_into(tree, monkeypatch)
    os.mkdir(f"{tree}/state", 0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{tree}/state")
    os.mkdir(f"{world.root}/mount")
    with agent_mount(tree, f"{world.root}/mount") as agent:
        agent.claim("lib/**")
        agent.write("lib/x")


def test_the_projects_own_programs_and_modules_are_not_looked_through(
    tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with its virtual environment activated: git is looked for there first, and so are modules."""
    monkeypatch.setenv("PATH", f"{tree}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{tree}/lib")
    with agent_mount(tree, tree) as agent:
        # Or the kernel would know already what is not there, and ask nobody.
        monkeypatch.undo()
        agent.claim("**")
        agent.write("file")
        git(Path(tree), "add", "file")
        git(Path(tree), "commit", "-q", "-m", "x")
        # Git was asked what became of it.
        wanted = api.intents(tree=agent.about["tree"], state="dirty")
        eventually(lambda: agent.ledger.send(wanted)["intents"] == [], what="the commit")
        # What is read only when somebody asks.
        assert agent.control.send(api.mount())["leases"]
        agent.write(".gitignore", "*.o\n")
        agent.write("built.o")
        assert {".gitignore", "built.o", "file"} < set(os.listdir(tree))
