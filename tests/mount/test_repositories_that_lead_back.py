"""Git directories that lead into the very mount that they are seen through: nothing waits for itself (P12)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.mount_trees import git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = [pytest.mark.mount]

_WITHIN_S = 30.0
_WRITE = "import sys; open(sys.argv[1], 'w').write('x')"


@pytest.fixture
def agent(world: World) -> Iterator[Agent]:
    source = Path(world.root, "tree")
    for directory in ("src", "nested", "elsewhere"):
        (source / directory).mkdir(parents=True)
    git(source, "init", "-q")
    git(source, "commit", "-q", "--allow-empty", "-m", "x")
    git(source, "init", "-q", "--bare", "elsewhere/bare")
    os.mkdir(f"{world.root}/mount")
    # Another name of the mount, which nobody tells it.
    os.symlink(f"{world.root}/mount", f"{world.root}/alias")
    with agent_mount(str(source), f"{world.root}/mount") as agent:
        agent.claim("src/**", "nested/**", "elsewhere/**")
        yield agent


def _objects(world: World, git_dir: Path) -> None:
    """As git-new-workdir makes them."""
    git_dir.mkdir()
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        os.symlink(f"{world.root}/mount/elsewhere/bare/{name}", git_dir / name)


def _common(world: World, git_dir: Path) -> None:
    git_dir.mkdir(exist_ok=True)
    if not (git_dir / "HEAD").exists():
        (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    (git_dir / "commondir").write_text(f"{world.root}/mount/elsewhere/bare\n")


def _pointer(world: World, git_dir: Path) -> None:
    git_dir.write_text(f"gitdir: {world.root}/mount/elsewhere/bare\n")


def _pointer_by_alias(world: World, git_dir: Path) -> None:
    git_dir.write_text(f"gitdir: {world.root}/alias/elsewhere/bare\n")


def _pointer_up(world: World, git_dir: Path) -> None:
    git_dir.write_text("gitdir: ../../alias/elsewhere/bare\n")


def _writes(path: str) -> bool:
    done = subprocess.run([sys.executable, "-c", _WRITE, path], check=False, timeout=_WITHIN_S)
    return done.returncode == 0


@pytest.mark.parametrize("lead", [_objects, _common, _pointer, _pointer_by_alias, _pointer_up])
@pytest.mark.parametrize("through", ["mount", "tree"])
def test_one_inside_the_tree(world: World, agent: Agent, lead: object, through: str) -> None:
    assert callable(lead)
    lead(world, Path(world.root, through, "nested/.git"))
    for at in range(3):
        assert _writes(f"{agent.root}/nested/file{at}")
    assert _writes(f"{agent.root}/nested/.git/x") == os.path.isdir(f"{agent.root}/nested/.git")
    assert sorted(os.listdir(f"{agent.root}/nested")) == [".git", "file0", "file1", "file2"]


def test_that_of_the_tree_itself(world: World, agent: Agent) -> None:
    _common(world, Path(agent.root, ".git"))
    for at in range(3):
        assert _writes(f"{agent.root}/src/file{at}")
    assert sorted(os.listdir(f"{agent.root}/src")) == ["file0", "file1", "file2"]


def test_where_a_file_is_made_in_the_directory_that_it_leads_through(
    world: World, agent: Agent
) -> None:
    """The kernel keeps a directory locked while a name is made in it, so that nobody gets through there."""
    beneath = Path(world.root, "tree/elsewhere")
    (beneath / "not-looked-up-yet").mkdir()
    (beneath / ".git").write_text(f"gitdir: {world.root}/alias/elsewhere/not-looked-up-yet\n")
    assert _writes(f"{agent.root}/elsewhere/file")
    assert sorted(os.listdir(f"{agent.root}/elsewhere")) == [
        ".git",
        "bare",
        "file",
        "not-looked-up-yet",
    ]
