"""The first exchange: what the kernel offers is asked for, and then the two talk to each other."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.mount.handshake import (
    CACHE_SYMLINKS,
    DONT_MASK,
    HANDLE_KILLPRIV_V2,
    PARALLEL_DIROPS,
    Handshake,
    completed,
    offered_flags,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS = HANDLE_KILLPRIV_V2 | CACHE_SYMLINKS | PARALLEL_DIROPS | DONT_MASK


def request(flags: int, *, opcode: int = 26) -> bytes:
    """FUSE_INIT as Linux 6 sends it."""
    body = struct.pack("<IIIII", 7, 45, 1 << 17, flags, 0) + bytes(44)
    return struct.pack("<IIQQIIII", 40 + len(body), opcode, 2, 0, 0, 0, 0, 0) + body


def reply(flags: int) -> bytes:
    """What libfuse answers."""
    body = struct.pack("<IIII", 7, 31, 1 << 17, flags) + bytes(48)
    return struct.pack("<IiQ", 16 + len(body), 0, 2) + body


def flags_of(message: bytes) -> int:
    return int(struct.unpack_from("<IIII", message, 16)[3])


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_only_what_is_offered_is_added_and_nothing_else_changes(offered: int, asked: int) -> None:
    whole = completed(reply(asked), offered)
    assert flags_of(whole) == asked | (OURS & offered)
    assert (whole[:28], whole[32:]) == (reply(asked)[:28], reply(asked)[32:])


@given(st.integers(0, 2**32 - 1))
def test_reads_the_offer(flags: int) -> None:
    assert offered_flags(request(flags)) == flags


@pytest.mark.parametrize("message", [b"", b"x" * 30, request(0, opcode=1)])
def test_another_beginning_is_a_protocol_error(message: bytes) -> None:
    with pytest.raises(OSError, match="did not begin with FUSE_INIT") as caught:
        offered_flags(message)
    assert caught.value.errno == errno.EPROTO


def test_an_error_is_passed_on_as_it_is() -> None:
    refused = struct.pack("<IiQ", 16, -errno.EPROTO, 2)
    assert completed(refused, OURS) == refused


@pytest.fixture
def ends() -> Iterator[tuple[Handshake, socket.socket]]:
    """The handshake, and the kernel's end of its connection."""
    kernel, device = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handshake = Handshake(device.detach())
    yield handshake, kernel
    os.close(handshake.libfuse_fd)
    kernel.close()


@pytest.mark.trio
async def test_afterwards_libfuse_talks_to_the_kernel_itself(
    ends: tuple[Handshake, socket.socket],
) -> None:
    handshake, kernel = ends
    kernel.send(request(OURS))
    assert not await handshake.step()
    assert os.read(handshake.libfuse_fd, 4096) == request(OURS)
    os.write(handshake.libfuse_fd, reply(1))
    assert await handshake.step()
    assert flags_of(kernel.recv(4096)) == OURS | 1
    kernel.send(b"next request")
    assert os.read(handshake.libfuse_fd, 4096) == b"next request"
    assert not os.get_inheritable(handshake.libfuse_fd)


@pytest.mark.trio
async def test_whatever_is_not_the_answer_is_a_protocol_error(
    ends: tuple[Handshake, socket.socket],
) -> None:
    handshake, kernel = ends
    kernel.send(request(OURS))
    await handshake.step()
    os.write(handshake.libfuse_fd, struct.pack("<IiQ", 16, 3, 0))
    with pytest.raises(OSError, match="by something else"):
        await handshake.step()
    handshake.close()
