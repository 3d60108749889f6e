"""Starting a mount's daemon: what keeps it from it is told as such, and what it does not need is not read."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from leasefs.client import paths
from leasefs.core.errors import NotMounted
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.own_world import own_world

if TYPE_CHECKING:
    from pathlib import Path


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """As on a disk that is full or read-only; and no descriptor is left open."""
    with own_world(str(tmp_path)):
        log = os.path.join(paths.state_dir(), "mount-ada.log")
        os.mkdir(log)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(NotMounted, match="cannot be started") as refused:
            start_mount(MountConfig(str(tmp_path), str(tmp_path), "ada", "test"))
        assert log in refused.value.message
        assert len(os.listdir("/proc/self/fd")) == len(before)


def test_what_a_mount_imports_stays_light() -> None:
    """Each host has dozens of them; each module more is memory of its own and time at the start.

    pathspec and RE2 come with the first ignore rule.
    """
    code = (
        "import leasefs.mount.__main__, sys; "
        "print(*sorted({'msgspec', 'immutables', 'statistics', 'argparse', 're2', 'pathspec', 'sqlite3', "
        "'leasefs.core.state'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_who_calls_the_daemon_by_hand_is_told_how_to_mount() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leasefs.mount", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "call `leasefs mount`" in done.stderr
