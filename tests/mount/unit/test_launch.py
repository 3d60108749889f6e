"""What keeps a mount's daemon from being started is told as such."""

from __future__ import annotations

import os
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
