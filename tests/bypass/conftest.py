"""A tree whose files belong to an ordinary user, behind mounts that lease a part of it.

File modes would let that user write everything: whatever is refused here is refused by the mount alone. Each test is an
attempt; docs/THREATS.md has a row for each (`tests/bypass/test_table.py`).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.bypass_agent import agent_beside_another
from leasefs.testing.bypass_scene import MINE, Scene, fill, unleased
from leasefs.testing.intruder import Intruder
from leasefs.testing.mounted import mounted
from leasefs.testing.own_world import World, own_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.agents import Agent


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that everybody can reach (pytest's own is closed to others than its owner)."""
    path = Path(tempfile.mkdtemp(prefix="leasefs-bypass-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def one_mount(place: Path) -> Iterator[Scene]:
    """Root's mount, at a place of its own; the source is closed to everybody else."""
    source, root = place / "closed/source", place / "mount"
    fill(source)
    (place / "closed").chmod(0o700)
    root.mkdir()
    with mounted(str(source), str(root)) as mount:
        yield Scene(source, root, mount, Intruder(str(root)))


@pytest.fixture
def scene(one_mount: Scene) -> Iterator[Scene]:
    """The leases as they are at the beginning of each attempt; what is not leased must be the same at its end."""
    one_mount.hold(MINE)
    before = unleased(one_mount.source)
    yield one_mount
    one_mount.hold(MINE)
    assert unleased(one_mount.source) == before


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with own_world(str(tmp_path_factory.mktemp("w"))) as world:
        yield world


@pytest.fixture(scope="module")
def agent(world: World) -> Iterator[Agent]:
    with agent_beside_another(f"{world.root}/tree") as agent:
        yield agent


@pytest.fixture(scope="session")
def fuse_for_all() -> Iterator[None]:
    """Open /dev/fuse to ordinary users, as udev does where it runs."""
    before = Path("/dev/fuse").stat().st_mode & 0o7777
    Path("/dev/fuse").chmod(0o666)
    yield
    Path("/dev/fuse").chmod(before)
