"""The first exchange with the kernel (FUSE_INIT), with what libfuse 3.14 has no word for.

libfuse is given one end of a socket pair as its connection. The kernel's first message is passed on to
it, its answer is completed with the flags below and passed back, and then the real connection takes the
socket's place under the same descriptor. Only flags that the kernel offers are set, and none that changes
the layout of a message (include/uapi/linux/fuse.h).
"""

from __future__ import annotations

import errno
import os
import socket
import struct

import trio

# The file system takes set-id bits away itself when a file is written. Without this the kernel asks for
# `security.capability` before every single write.
HANDLE_KILLPRIV_V2 = 1 << 28
# The text of a symlink never changes, so the kernel may keep it.
CACHE_SYMLINKS = 1 << 23
# Look-ups and listings of one directory need not wait for each other.
PARALLEL_DIROPS = 1 << 18
# The umask is ours to apply: a default ACL of the directory sets it aside. Mounts made by root say so with
# MS_POSIXACL; fusermount3 has no such option.
DONT_MASK = 1 << 6

_WANTED = HANDLE_KILLPRIV_V2 | CACHE_SYMLINKS | PARALLEL_DIROPS | DONT_MASK

_INIT = 26
_REQUEST_HEADER = struct.Struct("<IIQQIIII")
_REPLY_HEADER = struct.Struct("<IiQ")
# major, minor, max_readahead, flags: the beginning of fuse_init_in and of fuse_init_out.
_VERSION = struct.Struct("<IIII")
_LONGEST = 1 << 17


class Handshake:
    """Between /dev/fuse and libfuse until they agree; `libfuse_fd` is what libfuse is to be given."""

    def __init__(self, device_fd: int) -> None:
        """Takes `device_fd` over."""
        self._device_fd = device_fd
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.libfuse_fd = theirs.detach()
        self._offered: int | None = None
        self._unique = 0

    async def step(self) -> bool:
        """Do the next half, after which libfuse can go on reading; True when all is done.

        Raises:
            OSError: EPROTO if either side says something else than expected.
        """
        if self._offered is None:
            await trio.lowlevel.wait_readable(self._device_fd)
            request = os.read(self._device_fd, _LONGEST)
            self._offered = offered_flags(request)
            self._unique = _REQUEST_HEADER.unpack_from(request)[2]
            self._ours.send(request)
            return False
        reply = self._ours.recv(_LONGEST)
        if len(reply) < _REPLY_HEADER.size or _REPLY_HEADER.unpack_from(reply)[2] != self._unique:
            raise OSError(errno.EPROTO, "FUSE_INIT was answered by something else")
        reply = completed(reply, self._offered)
        os.write(self._device_fd, reply)
        os.dup2(self._device_fd, self.libfuse_fd, inheritable=False)
        self.close()
        return True

    def close(self) -> None:
        """Give up what is not needed any more; `libfuse_fd` stays libfuse's."""
        os.close(self._device_fd)
        self._ours.close()


def offered_flags(request: bytes) -> int:
    """The flags of the kernel's FUSE_INIT. Raises OSError EPROTO if it is another message."""
    if len(request) < _REQUEST_HEADER.size + _VERSION.size:
        raise OSError(errno.EPROTO, "the connection did not begin with FUSE_INIT")
    if _REQUEST_HEADER.unpack_from(request)[1] != _INIT:
        raise OSError(errno.EPROTO, "the connection did not begin with FUSE_INIT")
    flags: int = _VERSION.unpack_from(request, _REQUEST_HEADER.size)[3]
    return flags


def completed(reply: bytes, offered: int) -> bytes:
    """The answer of libfuse to FUSE_INIT with our flags added. An error is passed on as it is."""
    if len(reply) < _REPLY_HEADER.size + _VERSION.size:
        return reply
    major, minor, readahead, flags = _VERSION.unpack_from(reply, _REPLY_HEADER.size)
    whole = bytearray(reply)
    flags |= _WANTED & offered
    _VERSION.pack_into(whole, _REPLY_HEADER.size, major, minor, readahead, flags)
    return bytes(whole)
