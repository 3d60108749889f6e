"""Whoever could write there could be the ledger."""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from leasefs.service.idle import IdleWatch
from leasefs.service.places import UnsafePlace, listening_socket, private_directory
from leasefs.testing.clock import FakeClock

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_is_made_private(tmp_path: Path) -> None:
    private_directory(str(tmp_path / "a"))
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o700
    private_directory(str(tmp_path / "a"))


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    for mode in (0o755, 0o710, 0o701, 0o770):
        (tmp_path / oct(mode)).mkdir()
        os.chmod(tmp_path / oct(mode), mode)
        with pytest.raises(UnsafePlace, match="chmod 700"):
            private_directory(str(tmp_path / oct(mode)))


def test_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(UnsafePlace, match="symlink"):
        private_directory(str(tmp_path / "link"))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a directory away")
def test_somebody_elses_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 4242, 4242)
    with pytest.raises(UnsafePlace, match="uid 4242"):
        private_directory(str(tmp_path / "theirs"))


def test_the_socket_is_ours_alone_from_its_first_moment(tmp_path: Path) -> None:
    path = str(tmp_path / "run" / "s")
    with listening_socket(path):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(tmp_path / "run").st_mode) == 0o700


def test_a_stale_socket_is_replaced_and_anything_else_is_not(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    path = str(tmp_path / "s")
    listening_socket(path).close()
    with listening_socket(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UnsafePlace, match="no socket"):
        listening_socket(str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(UnsafePlace, match="no socket"):
        listening_socket(str(tmp_path / "link"))


def test_a_path_too_long_for_a_socket_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(UnsafePlace, match="107"):
        listening_socket(str(tmp_path / ("x" * 120)))


def test_idleness_is_counted_from_the_last_use() -> None:
    clock, needed = FakeClock(), [True]
    watch = IdleWatch(clock, 60.0, lambda: needed[0])
    clock.advance(1000.0)
    assert not watch.over()
    needed[0] = False
    clock.advance(59.0)
    assert not watch.over()
    needed[0] = True
    assert not watch.over()
    needed[0] = False
    clock.advance(59.0)
    assert not watch.over()
    clock.advance(1.0)
    assert watch.over()
