"""inotify(7) on directories of the lower tree, reached by descriptor.

watchdog is not used here because it drops the kernel's word that events were lost (IN_Q_OVERFLOW), holds
back half of each rename for half a second, and names directories by path, which a mount in place covers.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

ATTRIB = 0x004
MODIFY = 0x002
CLOSE_WRITE = 0x008
MOVED_FROM = 0x040
MOVED_TO = 0x080
CREATE = 0x100
DELETE = 0x200
OVERFLOW = 0x4000
IGNORED = 0x8000
IS_DIRECTORY = 0x40000000

# A close after writing is the only word of stores made through a mapping.
CHANGES = CLOSE_WRITE | ATTRIB | MODIFY | MOVED_FROM | MOVED_TO | CREATE | DELETE
_ONLYDIR = 0x01000000
_DONT_FOLLOW = 0x02000000
_EXCL_UNLINK = 0x04000000
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC

_HEADER = struct.Struct("iIII")
_AT_ONCE = 1 << 17

_libc = ctypes.CDLL(None, use_errno=True)


class Event(NamedTuple):
    """One change: the watch, what happened, and to which name; empty for the directory itself."""

    watch: int
    mask: int
    name: bytes


class Inotify:
    """One queue of events. Raises OSError only; ENOSPC where no more directories may be watched."""

    def __init__(self) -> None:
        self.fd = _checked(_libc.inotify_init1(_NONBLOCK_CLOEXEC))

    def close(self) -> None:
        """End all watches."""
        os.close(self.fd)

    def watch(self, directory_fd: int, kinds: int = CHANGES) -> int:
        """Watch an open directory (O_PATH will do) for these kinds of changes.

        Returns the watch, the same one when asked again.
        """
        # "/." makes the path end in the directory itself and not in the link to it.
        path = b"/proc/self/fd/%d/." % directory_fd
        flags = kinds | _ONLYDIR | _DONT_FOLLOW | _EXCL_UNLINK
        return _checked(_libc.inotify_add_watch(self.fd, path, flags))

    def unwatch(self, watch: int) -> None:
        """End one watch; its directory may be gone already."""
        _libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> list[Event]:
        """All that waits, at most some thousands; nothing if nothing does."""
        try:
            data = os.read(self.fd, _AT_ONCE)
        except BlockingIOError:
            return []
        return parse(data)


def parse(data: bytes) -> list[Event]:
    """The events of one read(2)."""
    events, at, end = [], 0, len(data)
    header, new = (
        _HEADER.unpack_from,
        tuple.__new__,
    )  # of many thousands; Event's own is written in Python
    while at < end:
        watch, mask, _, length = header(data, at)
        begins = at + 16
        at = begins + length
        events.append(new(Event, (watch, mask, data[begins:at].rstrip(b"\0"))))
    return events


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
