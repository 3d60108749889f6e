"""Where live mounts are found: one entry each."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import paths
from leasefs.client.find import MountFound, registered_mounts
from leasefs.client.process import process_identity
from leasefs.mount.registry import registered

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        (tmp_path / variable).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(tmp_path / variable))


def about(mountpoint: str, pid: int, process: str) -> dict[str, Any]:
    words = dict.fromkeys(MountFound._fields, "")
    return words | {"mountpoint": mountpoint, "pid": pid, "process": process, "beneath": False}


def entry(mountpoint: str, pid: int, process: str) -> None:
    with open(os.path.join(paths.mounts_dir(), f"{pid}.json"), "w") as file:
        json.dump(about(mountpoint, pid, process), file)


def test_a_mount_takes_the_place_of_those_that_died_there() -> None:
    """One that was detached by umount(8) left its entry, and `doctor` would say to unmount the new one."""
    dead, other_dead = (subprocess.Popen(["true"]) for _ in range(2))
    dead.wait(), other_dead.wait()
    entry("/m", dead.pid, "gone")
    entry("/elsewhere", other_dead.pid, "gone")
    here = process_identity(os.getpid())
    with registered(about("/m", os.getpid(), here)):
        found = {(one.mountpoint, one.pid, alive) for one, alive in registered_mounts()}
        assert found == {("/m", os.getpid(), True), ("/elsewhere", other_dead.pid, False)}
    assert [one.mountpoint for one, _ in registered_mounts()] == ["/elsewhere"]


def test_one_that_lives_stays_in_the_registry() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        entry("/m", other.pid, process_identity(other.pid))
        with registered(about("/m", os.getpid(), process_identity(os.getpid()))):
            assert len(registered_mounts()) == 2
        other.kill()
