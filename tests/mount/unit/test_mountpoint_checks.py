"""Obstacles to a mount that a test machine does not have."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from leasefs.core.errors import NotMounted
from leasefs.mount import mountpoint
from leasefs.mount.mountpoint import MountOptions, check

pytestmark = pytest.mark.mount

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def options(tmp_path: Path) -> MountOptions:
    (tmp_path / "mount").mkdir()
    (tmp_path / "source").mkdir()
    return MountOptions(
        str(tmp_path / "source"), str(tmp_path / "mount"), "agent-07", allow_other=True
    )


def refused(options: MountOptions) -> str:
    with pytest.raises(NotMounted) as caught:
        check(options)
    return caught.value.message


def test_no_device(options: MountOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    assert "modprobe fuse" in refused(options)


def test_a_device_that_may_not_be_opened(
    options: MountOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "chmod 666 /dev/fuse" in refused(options)


def test_no_fusermount3(options: MountOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "install the package fuse3" in refused(options)


def test_others_only_where_fuse_conf_lets_them(
    options: MountOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    conf = tmp_path / "fuse.conf"
    assert not mountpoint.user_allow_other(str(conf))
    conf.write_text("# user_allow_other\n")
    assert not mountpoint.user_allow_other(str(conf))
    conf.write_text("mount_max = 9\n  user_allow_other \n")
    assert mountpoint.user_allow_other(str(conf))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/fusermount3")
    monkeypatch.setattr(mountpoint, "user_allow_other", lambda: False)
    assert "/etc/fuse.conf" in refused(options)
    monkeypatch.setattr(mountpoint, "user_allow_other", lambda: True)
    check(options)


def test_a_place_in_order_is_not_refused(
    options: MountOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mountpoint, "user_allow_other", lambda: True)
    check(options)
