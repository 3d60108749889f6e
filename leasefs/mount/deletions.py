"""How many names vanish from the topmost directories of some lower trees: inotify(7).

Watching every directory of a large tree would cost more than it is worth. The first ones, level by
level, see enough: a tree cannot go away without them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import struct
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

log = logging.getLogger(__name__)

_IN_MOVED_TO = 0x80
_IN_DELETE = 0x200
_IN_Q_OVERFLOW = 0x4000
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x01000000
_IN_NONBLOCK = os.O_NONBLOCK
_IN_CLOEXEC = os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 16
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

WATCHED_DIRECTORIES = 256

_libc = ctypes.CDLL(None, use_errno=True)


class Deletions:
    """Counts, by tag. `fd` is readable when there is something to `drain`.

    `arrived` are names that something was renamed to, in directories where that was asked for.
    """

    def __init__(self) -> None:
        """Raises OSError if the user has too many inotify instances."""
        self.fd: int = _libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        if self.fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._tags: dict[int, Hashable] = {}
        self.counts: dict[Hashable, int] = {}
        self.arrived: set[bytes] = set()

    def close(self) -> None:
        """End all watching."""
        os.close(self.fd)

    def watch(self, tag: Hashable, directory_fd: int, *, alone: bool = False) -> bool:
        """Count what vanishes from this directory and the first ones below it, under `tag`.

        With `alone`, from this one only, and note what arrives there by rename. Takes milliseconds: a
        worker thread's job. False if the user's watches ran out.
        """
        mask = _IN_DELETE | _IN_ONLYDIR | (_IN_MOVED_TO if alone else 0)
        for path in _first_directories(directory_fd, 1 if alone else WATCHED_DIRECTORIES):
            watch: int = _libc.inotify_add_watch(self.fd, path.encode(), mask)
            if watch < 0:
                log.warning("inotify watches ran out (fs.inotify.max_user_watches)")
                return False
            self._tags[watch] = tag
        self.counts.setdefault(tag, 0)
        return True

    def forget(self, tag: Hashable) -> None:
        """Count nothing under this tag any more."""
        for watch in [watch for watch, of in self._tags.items() if of == tag]:
            _libc.inotify_rm_watch(self.fd, watch)
            self._tags.pop(watch, None)
        self.counts.pop(tag, None)

    def drain(self) -> None:
        """Count what happened up to now."""
        while True:
            try:
                data = os.read(self.fd, _BUFFER)
            except BlockingIOError:
                return
            self._count(data)

    def _count(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _IN_MOVED_TO:
                self.arrived.add(data[at - length : at].rstrip(b"\0"))
                continue
            if mask & _IN_Q_OVERFLOW:
                for tag in self.counts:
                    self.counts[tag] += WATCHED_DIRECTORIES
            elif mask & _IN_IGNORED:
                self._tags.pop(watch, None)
            elif watch in self._tags and self._tags[watch] in self.counts:
                self.counts[self._tags[watch]] += 1


def _first_directories(directory_fd: int, left: int) -> Iterator[str]:
    """Paths, each good until the next is asked for, of a directory and those below it, level by level."""
    waiting = deque([os.open(b".", _OPEN, dir_fd=directory_fd)])
    try:
        while waiting:
            yield f"/proc/self/fd/{waiting[0]}"
            left -= 1
            waiting.extend(_subdirectories(waiting[0], left - len(waiting) + 1))
            os.close(waiting.popleft())
    finally:
        for fd in waiting:
            os.close(fd)


def _subdirectories(fd: int, at_most: int) -> Iterator[int]:
    with os.scandir(fd) as entries:
        for entry in entries:
            if at_most <= 0:
                return
            if entry.is_dir(follow_symlinks=False):
                try:
                    below = os.open(entry.name, _OPEN, dir_fd=fd)
                except OSError:
                    continue  # gone, or swapped for something else
                at_most -= 1
                yield below
