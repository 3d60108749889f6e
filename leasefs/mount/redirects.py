"""Which directories are redirected: served natively by the lower file system, mounted over the mount.

What stands on scratch as a whole, and the git directory, needs no check; so the kernel is led past us.
This is the part that handlers ask and tell; `redirecting` makes and undoes redirects. It is inert until
that begins.

A mountpoint can be neither removed nor renamed, and the kernel says so (EBUSY) without asking us. But it
looks a name up again once its entry has expired. So the entry of a redirected directory expires at once;
only while there are many lookups on the way to something below does it live for some milliseconds each
time, unless much is being deleted there. A lookup by a caller that is about to take the name, or one that finds the directory empty,
is answered with ESTALE once: that drops the entry, which takes the mount off (d_invalidate, fs/dcache.c),
and the kernel looks again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import trio

from leasefs.mount.callers import Callers, Intent
from leasefs.mount.lower import stale

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.deletions import Deletions
    from leasefs.mount.inodes import Inodes, Node
    from leasefs.mount.shapes import Stat

# One tick of the kernel's clock (CONFIG_HZ is 250 or 1000 nearly everywhere). Each time a request goes
# through one of these entries after that long, it costs one round trip more.
BRIEF_ENTRY_S = 0.004
# From so many deletions on within a moment, the directory may be about to be removed. Of the git
# directory's only the topmost count.
_SUSPICIOUS = {False: 64, True: 3}
_GUARDED_FOR_S = 0.5
# So many lookups in that time cost more than a builder would like to wait. (False: scratch, True: git.)
_BUSY = {False: 16, True: 64}
_COUNTED_FOR_S = 0.2
# If one in so many is for a removal below, the directory may be about to be removed.
_MOSTLY = 4
# How long a directory that lost its redirect goes without.
REST_S = 2.0
_TOUCHED = 4096

Place = tuple[int, bytes]


class Redirect:
    """One redirected directory. `mount_id` is 0 while it is being made.

    `lower_fd` is open for listing and closed by `redirecting`.
    """

    __slots__ = (
        "counted_until_s",
        "deleted",
        "guarded_until_s",
        "is_git",
        "lookups",
        "lower_fd",
        "mount_id",
        "node",
        "path",
        "place",
        "removals",
        "shrinks",
        "void",
    )

    def __init__(self, node: Node, path: bytes, lower_fd: int, *, is_git: bool) -> None:
        self.node = node
        # Where the kernel has its entry, as long as the mount stands.
        self.place: Place = (node.parent.number if node.parent else 0, node.name)
        self.path = path
        self.lower_fd = lower_fd
        self.is_git = is_git
        self.mount_id = 0
        # Something happened while it was being made that it must not cover.
        self.void = False
        # Counted since a moment ago: lookups of its entry, those of them for removals below, and what
        # had been deleted until then.
        self.counted_until_s = 0.0
        self.lookups = 0
        self.removals = 0
        self.deleted = 0
        # Much was deleted below, and nobody looked how much is left.
        self.shrinks = False
        self.guarded_until_s = 0.0

    def start_counting(self, deleted: int, until_s: float) -> None:
        """Anew, until then; so much was ever deleted."""
        self.counted_until_s, self.lookups, self.removals = until_s, 0, 0
        self.shrinks = self.shrinks or deleted > self.deleted
        self.deleted = deleted


class Redirects:
    """The redirects of one mount, and the directories that might become some."""

    def __init__(self, inodes: Inodes) -> None:
        self._inodes = inodes
        self._now_s: Callable[[], float] = float
        self.active = False
        self.by_place: dict[Place, Redirect] = {}
        # Inode numbers whose entries the kernel may keep for so many seconds only.
        self.brief: dict[int, float] = {}
        self.deletions: Deletions | None = None
        self._callers = Callers()
        # No redirect of these paths until then.
        self.resting: dict[bytes, float] = {}
        # Lost their mount; what they hold open is still to be closed.
        self.lost: list[Redirect] = []
        self.look = trio.Event()
        self.hurry = trio.Event()
        self._touched: set[bytes] = set()
        self._learnt: list[Node] = []

    def begin(self, now_s: Callable[[], float], deletions: Deletions) -> None:
        """From now on what handlers tell is remembered."""
        self._now_s, self.deletions = now_s, deletions
        self.active = True
        self._inodes.on_directory = self._learn

    def end(self) -> None:
        """There will be no more redirects."""
        self.active = False
        self._inodes.on_directory = None

    # -- what handlers tell ----------------------------------------------------------------------

    def _learn(self, directory: Node) -> None:
        """The kernel gets to know a directory."""
        if len(self._learnt) < _TOUCHED:
            self._learnt.append(directory)
            self.look.set()

    def changed(self, path: bytes) -> None:
        """Something changed at this path, through a handler."""
        if not self.active:
            return
        directory, _, name = path.rpartition(b"/")
        if name == b".gitignore" or path == b".git/index":
            self.hurry.set()
        elif directory not in self._touched:
            self.touch(directory)

    def is_at(self, directory: Node, name: bytes) -> bool:
        """Whether this name is a redirect's place."""
        return (directory.number, name) in self.by_place

    def touch(self, directory: bytes) -> None:
        """This directory may be worth a look."""
        if len(self._touched) < _TOUCHED:
            self._touched.add(directory)
            self.look.set()

    def moved(self) -> None:
        """A directory was renamed: what is redirected below it may stand on other ground now."""
        self.hurry.set()

    def linked(self, path: bytes, new_path: bytes) -> None:
        """A file got one more name. With one name inside a redirect, writes would pass unasked."""
        for redirect in self.by_place.values():
            inside = redirect.path + b"/"
            if path.startswith(inside) != new_path.startswith(inside):
                redirect.void = True
                self.hurry.set()

    def looked_up(self, place: Place, found: Stat, thread: int) -> float:
        """The kernel asks what is at a redirect's place; how long it may remember the answer, in seconds.

        Raises:
            OSError: ESTALE, if the mount must go; the kernel asks again then.
        """
        redirect = self.by_place[place]
        if redirect.void and not redirect.mount_id:
            return 0.0  # it will not be made, and the kernel asks for the second time
        if not self._inodes.is_same(redirect.node, found):
            self._let_go(redirect)  # the kernel sees that by itself
            return 0.0
        self.heed_deletions()
        meant = self._callers.intent(thread, place[1])
        if meant is Intent.TAKES or _is_empty(redirect.lower_fd):
            self._let_go(redirect)
            raise stale("what is mounted there must go first")
        redirect.lookups += 1
        redirect.removals += meant is Intent.REMOVES
        below = meant is Intent.PASSES or meant is Intent.REMOVES
        return BRIEF_ENTRY_S if below and self._may_be_brief(redirect) else 0.0

    def _may_be_brief(self, redirect: Redirect) -> bool:
        """Whether so many walk through that it is worth the risk of a removal that comes just after."""
        removed = redirect.removals * _MOSTLY >= redirect.lookups
        return (
            redirect.lookups > _BUSY[redirect.is_git]
            and not removed
            and self._now_s() >= redirect.guarded_until_s
        )

    def _let_go(self, redirect: Redirect) -> None:
        if redirect.mount_id:
            self.lose(redirect)
        else:
            redirect.void = True  # perhaps it is being mounted right now

    # -- what `redirecting` asks -----------------------------------------------------------------

    def take_touched(self) -> set[bytes]:
        """Directories that were learnt or changed since the last time."""
        self.look = trio.Event()
        touched, self._touched = self._touched, set()
        learnt, self._learnt = self._learnt, []
        touched.update(path for path in map(self._inodes.path, learnt) if path)
        return touched

    def covers(self, path: bytes) -> bool:
        """Whether this path is served by a redirect, not by handlers."""
        return any(
            path == redirect.path or path.startswith(redirect.path + b"/")
            for redirect in self.by_place.values()
            if redirect.mount_id
        )

    def unseen(self) -> list[bytes]:
        """The scratch directories in which no handler sees what changes, or did until a moment ago."""
        both = [*self.by_place.values(), *self.lost]
        return [redirect.path for redirect in both if not redirect.is_git]

    def mounted(self) -> list[Redirect]:
        """All that are in force."""
        return [redirect for redirect in self.by_place.values() if redirect.mount_id]

    def lose(self, redirect: Redirect) -> None:
        """It is not in force any more, or will not be in a moment."""
        self.by_place.pop(redirect.place, None)
        self.brief.pop(redirect.node.number, None)
        self.resting[redirect.path] = self._now_s() + REST_S
        self.lost.append(redirect)
        self.hurry.set()

    def heed_deletions(self) -> list[Redirect]:
        """Look at what was deleted; returns the redirects that are guarded since just now."""
        if self.deletions is None:
            return []
        self.deletions.drain()
        now_s = self._now_s()
        alarmed = []
        for redirect in self.mounted():
            count = self.deletions.counts.get(redirect, 0)
            if now_s >= redirect.counted_until_s:
                redirect.start_counting(count, now_s + _COUNTED_FOR_S)
            if count - redirect.deleted < _SUSPICIOUS[redirect.is_git]:
                continue
            redirect.deleted = count
            if now_s >= redirect.guarded_until_s:
                alarmed.append(redirect)
            redirect.guarded_until_s = now_s + _GUARDED_FOR_S
            redirect.shrinks = True
        return alarmed


def _is_empty(directory_fd: int) -> bool:
    with os.scandir(directory_fd) as entries:
        return next(entries, None) is None
