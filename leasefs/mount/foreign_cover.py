"""Watching and knowing all of a tree, for foreign writes: in the background, some of a millisecond at a time.

Each directory is watched, then listed. What a listing finds changed since the mount began has changed before the
watch, and is judged like what an event led to. After the kernel dropped events, every directory is listed again.
Scratch and git's own directories are left out.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.core.policy import Place
from leasefs.mount.gate import Wanting, once_fetched
from leasefs.mount.ground import CONTROL_NAME
from leasefs.mount.memory import give_back
from leasefs.mount.watches import GONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.foreign import Foreign
    from leasefs.mount.inodes import Node
    from leasefs.mount.tree import Tree

log = logging.getLogger(__name__)

# Worked for so long, then requests have the loop for so long.
_WORK_S = 0.001
_REST_S = 0.004
# The mount is to be usable, and whoever waited for it at work, before this begins.
_BEGIN_AFTER_S = 0.2
_TIDY_EVERY_S = 10.0
_ROUNDS = 4


class _Task(NamedTuple):
    """A directory that is to be listed: itself, or what is at a name in one."""

    directory: Node
    name: bytes
    how: str


class Cover:
    """Lists what is to be listed; one for each mount."""

    def __init__(self, foreign: Foreign, tree: Tree, looked_again: Callable[[], None]) -> None:
        """`looked_again` is called when all was looked at after events had been lost."""
        self._foreign = foreign
        self._tree = tree
        self._looked_again = looked_again
        self._tasks: deque[_Task] = deque()
        self._some = trio.Event()
        self._again = False
        self._rest_at_s = 0.0
        foreign.to_list = self._to_list
        foreign.to_list_again = self._to_list_again
        foreign.events_lost = self._all_again
        # Below these, directories may be scratch no more.
        self._other_rules: set[Node] = set()
        foreign.rules_changed = self._other_rules.add

    def _to_list(self, directory: Node, name: bytes, arrived: bool) -> None:
        self._add(_Task(directory, name, "arrived" if arrived else "first"))

    def _to_list_again(self, directory: Node) -> None:
        self._add(_Task(directory, b"", "again"))

    def _all_again(self) -> None:
        self._again = True
        for directory in self._foreign.directories():
            self._add(_Task(directory, b"", "again"))

    def _add(self, task: _Task) -> None:
        self._tasks.append(task)
        self._some.set()

    async def run(self) -> None:
        """List all of the tree, then what comes, for ever."""
        await trio.sleep(_BEGIN_AFTER_S)
        self._add(_Task(self._tree.inodes.root, b"", "first"))
        await self._do_all()
        give_back()
        while True:
            await self._some.wait()
            await self._do_all()

    async def _do_all(self) -> None:
        self._rest_at_s = _now_s() + _WORK_S
        while self._tasks:
            await self._do(self._tasks.popleft())
        self._some = trio.Event()
        if self._again:
            self._again = False
            self._foreign.own.let_go()
            self._looked_again()

    async def _do(self, task: _Task) -> None:
        try:
            directory = await self._directory(task)
            if directory is not None:
                await self._list(directory, task.how)
        except OSError as error:
            if error.errno not in GONE:
                log.warning("what others change in a directory may be missed: %s", error)

    async def _directory(self, task: _Task) -> Node | None:
        """The directory, watched; None if it is not to be."""
        tree, node = self._tree, task.directory
        path = tree.inodes.path_at(node, task.name) if task.name else tree.inodes.path(node)
        if path is None or not await self._is_tree(path):
            return None
        if task.name:
            if self._foreign.known(node) is None:
                return None  # it left the tree meanwhile
            found = tree.lower.lstat(node, task.name)
            if not stat.S_ISDIR(found.st_mode):
                return None
            node = tree.inodes.learn(node, task.name, found)
        return node if self._is_watched(node) else None

    def _is_watched(self, node: Node) -> bool:
        try:
            watched = self._tree.outside.watch_spare(node)
        except OSError as error:
            self._forget(node)
            if error.errno != errno.ENOSPC:
                raise
            self._out_of_watches()
            return False
        if not watched:
            if node is self._tree.inodes.root:
                self._foreign.unwatched = None
            self._forget(node)
        elif self._foreign.known(node) is None:
            self._foreign.watching(node)  # it was away, and is back
        return watched

    def _forget(self, node: Node) -> None:
        for gone in self._tree.inodes.drop_unknown(node):
            self._tree.lower.forget(gone)

    def _out_of_watches(self) -> None:
        if not self._foreign.unwatched:
            log.warning(
                "not all directories can be watched: foreign writes in the others are not reported; "
                "raise fs.inotify.max_user_watches (sysctl)"
            )
        self._foreign.left_out(1)

    async def tidy(self) -> None:
        """Keep small what is known where nothing happens, and find what is scratch no more; runs until cancelled."""
        while True:
            await trio.sleep(_TIDY_EVERY_S)
            while self._other_rules:
                self._add(_Task(self._other_rules.pop(), b"", "anew"))
            for directory in self._foreign.directories():
                known = self._foreign.known(directory)
                if known is None or known.is_packed:
                    continue
                if not known.used:
                    known.pack()
                    await trio.sleep(_REST_S)
                known.used = False

    # -- listing -------------------------------------------------------------------------------

    async def _list(self, directory: Node, how: str) -> None:
        known = self._foreign.known(directory)
        if known is None or (how == "first" and known.listed):
            return
        seen: set[bytes] = set()
        fd = self._tree.lower.open_listing(directory)
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    name = os.fsencode(entry.name)
                    seen.add(name)
                    with suppress(FileNotFoundError):
                        self._look(directory, name, entry.stat(follow_symlinks=False), how)
                    await self._rest()
        finally:
            os.close(fd)
        if how == "again":
            await self._look_for_missing(directory, seen)
        known.listed = True
        known.pack()
        await self._rest()

    def _look(self, directory: Node, name: bytes, found: os.stat_result, how: str) -> None:
        tree = self._tree
        if name == b".git" or (name == CONTROL_NAME and directory is tree.inodes.root):
            return
        known = self._foreign.known(directory)
        is_new = known is not None and known.get(name) is None
        act = tree.outside.act(directory, name)
        self._foreign.listed(directory, name, found, act, how, is_tracked=self._is_tracked)
        if not stat.S_ISDIR(found.st_mode):
            return
        if how == "anew":
            self._add(_Task(directory, name, how))
        elif how != "again" or is_new:
            ours = act is not None or how == "first"
            self._add(_Task(directory, name, "first" if ours else "arrived"))

    async def _look_for_missing(self, directory: Node, seen: set[bytes]) -> None:
        known = self._foreign.known(directory)
        if known is None:
            return
        for name in [name for name, _ in known.items() if name not in seen]:
            # It may have come after the listing.
            if self._tree.look(directory, name) is None:
                self._foreign.missing(directory, name, self._tree.outside.act(directory, name))
            await self._rest()

    def _is_tracked(self, path: bytes) -> bool:
        try:
            return self._tree.ground.is_tracked(path)
        except Wanting:
            return True

    async def _is_tree(self, path: bytes) -> bool:
        """Whether foreign writes in this directory are anybody's business."""
        ground = self._tree.ground
        place = await place_of(self._tree, path, is_dir=True) if path else Place.TREE
        return place is Place.TREE or (place is Place.SCRATCH and ground.holds_tracked(path))

    async def _rest(self) -> None:
        if _now_s() >= self._rest_at_s:
            await trio.sleep(_REST_S)
            self._rest_at_s = _now_s() + _WORK_S


async def place_of(tree: Tree, path: bytes, *, is_dir: bool) -> Place:
    """The ground of a path; in doubt, where that changes all the time, it is tree."""
    return await once_fetched(
        lambda: tree.ground.place(path, is_dir=is_dir), otherwise=Place.TREE, rounds=_ROUNDS
    )


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)
