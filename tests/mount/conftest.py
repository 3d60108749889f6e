"""Ground for real mounts: directories that an ordinary user can reach."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.mounted import Pair, mounted
from leasefs.testing.own_world import World, own_world

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def fuse_for_all() -> Iterator[None]:
    """Open /dev/fuse to ordinary users, as udev does where it runs."""
    before = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    os.chmod("/dev/fuse", 0o666)
    yield
    os.chmod("/dev/fuse", before)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that everybody can reach (pytest's own is closed to others than its owner)."""
    path = Path(tempfile.mkdtemp(prefix="leasefs-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def pair(place: Path) -> Iterator[Pair]:
    """A tree, and two agents' mounts of it that hold everything."""
    for name in ("source", "mount", "other"):
        (place / name).mkdir()
    source = str(place / "source")
    with (
        mounted(source, str(place / "mount"), "--lease", "**", "--agent", "a") as mount,
        mounted(source, str(place / "other"), "--lease", "**", "--agent", "b") as other,
    ):
        yield Pair(place / "source", mount, other)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


@pytest.fixture
def repo(world: World) -> str:
    root = f"{world.root}/repo"
    os.makedirs(f"{root}/src/deep")
    for name in ("a", "src/a", "src/b", "src/deep/c"):
        Path(root, name).write_text("x")
    return root


@pytest.fixture
def agent(repo: str) -> Iterator[Agent]:
    with agent_mount(repo, repo) as agent:
        yield agent
