"""How many names vanish from the topmost directories of some lower trees: inotify(7).

Watching every directory of a large tree would cost more than it is worth. The first ones, level by
level, see enough: a tree cannot go away without them.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from typing import TYPE_CHECKING

from leasefs.mount import inotify
from leasefs.mount.inotify import Event, Inotify

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

log = logging.getLogger(__name__)

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

WATCHED_DIRECTORIES = 256
_LOCK = b".lock"


class Deletions:
    """Counts, by tag. `fd` is readable when there is something to `drain`.

    `arrived` are names that something was renamed to, in directories where that was asked for.
    """

    def __init__(self) -> None:
        """Raises OSError if the user has too many inotify instances."""
        self._inotify = Inotify()
        self.fd = self._inotify.fd
        self._tags: dict[int, Hashable] = {}
        self._alone: set[Hashable] = set()
        self.counts: dict[Hashable, int] = {}
        self.arrived: set[bytes] = set()

    def close(self) -> None:
        """End all watching."""
        self._inotify.close()

    def watch(self, tag: Hashable, directory_fd: int, *, alone: bool = False) -> bool:
        """Count what vanishes from this directory and the first ones below it, under `tag`.

        With `alone`, from this one only, but for the locks that git takes and removes there with every command, and
        note what arrives there by rename. Takes milliseconds: a worker thread's job. False if the user's watches ran out.
        """
        kinds = inotify.DELETE | (inotify.MOVED_TO if alone else 0)
        for fd in _first_directories(directory_fd, 1 if alone else WATCHED_DIRECTORIES):
            try:
                watch = self._inotify.watch(fd, kinds)
            except OSError:
                log.warning("inotify watches ran out (fs.inotify.max_user_watches)")
                return False
            self._tags[watch] = tag
        self.counts.setdefault(tag, 0)
        if alone:
            self._alone.add(tag)
        return True

    def forget(self, tag: Hashable) -> None:
        """Count nothing under this tag any more."""
        for watch in [watch for watch, of in self._tags.items() if of == tag]:
            self._inotify.unwatch(watch)
            self._tags.pop(watch, None)
        self.counts.pop(tag, None)
        self._alone.discard(tag)

    def drain(self) -> None:
        """Count what happened up to now."""
        while events := self._inotify.read():
            for event in events:
                self._count(event)

    def _count(self, event: Event) -> None:
        if event.mask & inotify.MOVED_TO:
            self.arrived.add(event.name)
        elif event.mask & inotify.OVERFLOW:
            for tag in self.counts:
                self.counts[tag] += WATCHED_DIRECTORIES
        elif event.mask & inotify.IGNORED:
            self._tags.pop(event.watch, None)
        elif (tag := self._tags.get(event.watch)) in self.counts:
            taken_back = tag in self._alone and event.name.endswith(_LOCK)
            self.counts[tag] += not taken_back


def _first_directories(directory_fd: int, left: int) -> Iterator[int]:
    """Descriptors, each open until the next is asked for, of a directory and those below it, level by level."""
    waiting = deque([os.open(b".", _OPEN, dir_fd=directory_fd)])
    try:
        while waiting:
            yield waiting[0]
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
