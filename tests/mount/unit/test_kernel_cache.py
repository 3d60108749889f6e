"""Telling the kernel: in order, from a thread, a second time, and never a fault of the mount."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from leasefs.mount import kernel_cache
from leasefs.mount.kernel_cache import FuseCache
from leasefs.mount.notices import Notices

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[FuseCache, socket.socket]]:
    """A cache, and the kernel's end of the connection."""
    kernel, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    notices = Notices(ours.fileno())
    notices.begin()
    cache = FuseCache(notices)
    yield cache, kernel
    cache.stop()
    kernel.close()
    ours.close()


def heard(kernel: socket.socket) -> tuple[int, tuple[int, ...] | bytes]:
    """The code of a notice, and what it says."""
    message = kernel.recv(4096)
    length, code, unique = struct.unpack_from("=IiQ", message)
    assert (length, unique) == (len(message), 0)
    if code == 2:
        return code, struct.unpack_from("=Qqq", message, 16)
    return code, message[16:]


def test_nothing_is_said_before_the_first_exchange() -> None:
    """It would be taken for libfuse's answer to FUSE_INIT, which the kernel then waits for without end."""
    kernel, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    notices = Notices(ours.fileno())
    for say in (
        lambda: notices.expire(1, b"name"),
        lambda: notices.drop(1, b"name"),
        lambda: notices.inode(1, pages=True),
        notices.all_entries,
    ):
        with pytest.raises(FileNotFoundError):
            say()
    kernel.setblocking(False)
    with pytest.raises(BlockingIOError):
        kernel.recv(1)
    notices.begin()
    notices.expire(1, b"name")
    assert heard(kernel)[0] == 3
    kernel.close()
    ours.close()


def test_at_once_without_the_thread(ends: tuple[FuseCache, socket.socket]) -> None:
    cache, kernel = ends
    cache.drop_attributes_now(7)
    assert heard(kernel) == (2, (7, -1, 0))
    assert cache.expire_all_names()
    assert heard(kernel) == (8, b"")


@pytest.mark.trio
async def test_in_order_and_then_settled(ends: tuple[FuseCache, socket.socket]) -> None:
    cache, kernel = ends
    cache.start()
    cache.drop_inode(7)
    cache.expire_name(1, b"name")
    await cache.settled()
    kernel.setblocking(False)
    assert heard(kernel) == (2, (7, 0, 0))
    assert heard(kernel) == (3, struct.pack("=QII", 1, 4, 1) + b"name\0")


def test_each_is_told_a_second_time(
    ends: tuple[FuseCache, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, kernel = ends
    monkeypatch.setattr(kernel_cache, "AGAIN_AFTER_S", 0.01)
    cache.start()
    cache.drop_attributes(7)
    kernel.settimeout(30)
    assert [heard(kernel), heard(kernel)] == [(2, (7, -1, 0))] * 2


@pytest.mark.trio
async def test_what_the_kernel_refuses_does_not_matter(
    ends: tuple[FuseCache, socket.socket],
) -> None:
    cache, kernel = ends
    kernel.close()
    cache.start()
    cache.drop_inode(7)
    assert not cache.expire_all_names()
    await cache.settled()


def test_after_the_stop_nothing_is_sent() -> None:
    read_end, write_end = os.pipe()
    cache = FuseCache(Notices(write_end))
    cache.start()
    cache.stop()
    cache.drop_inode(7)
    os.close(write_end)
    assert os.read(read_end, 1) == b""
    os.close(read_end)
