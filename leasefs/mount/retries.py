"""What a thread finds that was answered ESTALE, held by a descriptor until the thread has it.

The kernel passes no first ESTALE on: it looks each name of the path up again and tries once more (path_openat and
retry_estale, fs/namei.c). Where others replace what is at a name over and over, that second try may again come
too late, while a plain directory always gives one or the other. So what such a thread looks up is held.

It is held for that thread's own open alone. Whoever opens by what the kernel remembers is to get what is at the
name now, and is answered ESTALE if that is something else.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.inodes import Node

# Of a thread that was answered: how many look-ups may be part of its second try, and for how long. A path of that
# many names is rare, and so is a thread that has to wait longer for its turn.
_LOOKUPS = 100
_FOR_S = 10.0
# Threads at a time; the oldest make room.
_MOST_THREADS = 1024


@dataclass(slots=True)
class _Told:
    """A thread that was answered ESTALE."""

    since_s: float
    lookups: int = _LOOKUPS


@dataclass(slots=True)
class _Held:
    """An inode, where it was found, and by whom."""

    fd: int
    place: tuple[Node, bytes]
    since_s: float
    threads: set[int] = field(default_factory=set)


class Retries:
    """Threads that try again, and what they found. One for each mount.

    Threads of other pid namespaces are all 0 to us, and get what any of them found.
    """

    def __init__(self, *, most: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """At most so many descriptors are held; the oldest make room."""
        self._most = most
        self._now_s = now_s
        # False nearly always, and then no request has to ask more.
        self.told: OrderedDict[int, _Told] = OrderedDict()
        # Nor this.
        self.held: OrderedDict[Node, _Held] = OrderedDict()

    def told_stale(self, thread: int) -> None:
        """The thread is being answered ESTALE."""
        self.told[thread] = _Told(self._now_s())
        self.told.move_to_end(thread)
        if len(self.told) > _MOST_THREADS:
            self.told.popitem(last=False)

    def looks_again(self, thread: int) -> bool:
        """Whether the look-up that the thread makes now may be part of its second try."""
        told = self.told.get(thread)
        if told is None:
            return False
        told.lookups -= 1
        if told.lookups < 0 or self._is_over(told.since_s):
            del self.told[thread]
            return False
        return True

    def hold(self, thread: int, node: Node, fd: int, place: tuple[Node, bytes]) -> None:
        """Keep what the thread found at (directory, name); the descriptor is closed here."""
        held = self.held.pop(node, None)
        if held is None:
            held = _Held(fd, place, 0.0)
        else:
            os.close(fd)
        held.since_s, held.place = self._now_s(), place
        held.threads.add(thread)
        self.held[node] = held
        self._make_room()

    def _make_room(self) -> None:
        for node, held in list(self.held.items()):
            if len(self.held) <= self._most and not self._is_over(held.since_s):
                return
            self.forget(node)

    def _is_over(self, since_s: float) -> bool:
        return self._now_s() - since_s > _FOR_S

    def is_held(self, node: Node) -> bool:
        """Whether a descriptor of the inode is kept here, so that its number is not used again."""
        return node in self.held

    def fd_of(self, node: Node) -> int:
        """The descriptor, O_PATH, borrowed; -1 if none is kept."""
        held = self.held.get(node)
        return -1 if held is None else held.fd

    def found_by(self, thread: int, node: Node) -> bool:
        """Whether this thread looked it up in its second try and did not open it yet."""
        held = self.held.get(node)
        return held is not None and thread in held.threads

    def place_of(self, node: Node) -> tuple[Node, bytes] | None:
        """Where it was found: what its change is judged by once nothing has that name."""
        held = self.held.get(node)
        return None if held is None else held.place

    def served(self, thread: int, node: Node) -> None:
        """The thread has the inode open, or need not have it."""
        self.told.pop(thread, None)
        held = self.held.get(node)
        if held is None:
            return
        held.threads.discard(thread)
        if not held.threads:
            self.forget(node)

    def forget(self, node: Node) -> None:
        """The kernel knows the node no more."""
        held = self.held.pop(node, None)
        if held is not None:
            os.close(held.fd)

    def close(self) -> None:
        """Hold nothing any more."""
        for node in list(self.held):
            self.forget(node)
