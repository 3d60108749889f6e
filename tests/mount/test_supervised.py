"""What a mount tells its supervisor when nobody answers behind it."""

from __future__ import annotations

import ctypes
import os
import socket
from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.client.supervisor import Supervisor
from leasefs.mount.supervised import Supervised
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root]

_MNT_FORCE = 1
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A mount whose requests nobody reads, and the descriptor that holds it."""
    place = tmp_path / "mount"
    place.mkdir()
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
    assert _libc.mount(b"silent", bytes(place), b"fuse", 0, options) == 0
    try:
        yield str(place), fd
    finally:
        _libc.umount2(bytes(place), _MNT_DETACH)
        os.close(fd)


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def waits_for(mountpoint: str) -> bool:
    """Whether a child of ours asks the mount."""
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children", encoding="ascii") as children:
            for pid in children.read().split():
                with open(f"/proc/{pid}/cmdline", "rb") as command:
                    if os.fsencode(mountpoint) in command.read().split(b"\0"):
                        return True
    return False


@pytest.mark.trio
async def test_it_is_neither_ready_nor_alive(silent: tuple[str, int], heard: socket.socket) -> None:
    place, _ = silent
    told = Supervised(Supervisor(str(heard.getsockname()), 0.03), place, lambda: "well")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(told.run)
        told.mounted()
        await trio.to_thread.run_sync(
            lambda: eventually(lambda: waits_for(place), what="a question")
        )
        with pytest.raises(BlockingIOError):
            heard.recv(4096)
        # As at the daemon's end: whoever asks gets an error.
        _libc.umount2(os.fsencode(place), _MNT_FORCE)
        await trio.to_thread.run_sync(
            lambda: eventually(lambda: not waits_for(place), what="the end of the question")
        )
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_one_that_answers_is_both(tmp_path: Path, heard: socket.socket) -> None:
    told = Supervised(Supervisor(str(heard.getsockname()), 0.03), str(tmp_path), lambda: "well")
    said = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(told.run)
        told.mounted()
        with trio.fail_after(30):
            while b"WATCHDOG=1" not in said:
                await trio.lowlevel.wait_readable(heard)
                said += heard.recv(4096) + b"\n"
        nursery.cancel_scope.cancel()
    assert said.startswith(b"READY=1\nSTATUS=well\n")


@pytest.mark.trio
async def test_that_it_is_silent_is_told(
    silent: tuple[str, int],
    heard: socket.socket,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The supervisor's watchdog ends it some time later, and the log should say why."""
    monkeypatch.setattr("leasefs.mount.supervised.SILENT_AFTER_S", 0.01)
    place, _ = silent
    told = Supervised(Supervisor(str(heard.getsockname()), 0.03), place, lambda: "well")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(told.run)
        told.mounted()
        await trio.to_thread.run_sync(
            lambda: eventually(lambda: "has not answered" in caplog.text, what="a word about it")
        )
        _libc.umount2(os.fsencode(place), _MNT_FORCE)
        nursery.cancel_scope.cancel()
    assert f"{place} has not answered another process" in caplog.text
