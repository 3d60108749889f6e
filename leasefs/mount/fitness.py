"""Whether a directory may be redirected: what it stands on, and who uses what is in it."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from leasefs.core.policy import Place
from leasefs.mount.gate import once_fetched
from leasefs.mount.mountinfo import mounts, not_left_behind
from leasefs.mount.surveying import names_outside, survey

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.handles import OpenFile
    from leasefs.mount.inodes import Node
    from leasefs.mount.redirects import Redirect
    from leasefs.mount.tree import Tree

log = logging.getLogger(__name__)

T = TypeVar("T")

# What says that commands are run inside of a directory: builds configured there. Git would not find its
# repository from a place with another device number ("Stopping at filesystem boundary", git(1)).
_RUN_INSIDE = (b"CMakeCache.txt", b"config.status", b"build.ninja", b"Makefile", b"meson-private")

# Each round reads one thing that was not known; more than this means that it changes all the time.
_ROUNDS = 8


class Fitness:
    """Answers for one tree. Doubt is a no."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    # -- the ground ------------------------------------------------------------------------------

    async def place(self, directory: bytes) -> Place:
        """The ground of everything in a directory; TREE in doubt."""
        ground = self._tree.ground

        def whole() -> Place:
            if ground.holds_tracked(directory):
                return Place.TREE
            place = ground.place(directory, is_dir=True)
            alike = place is not Place.SCRATCH or ground.is_scratch_tree(directory)
            return place if alike else Place.TREE

        return await _settled(whole)

    # -- what is in it ---------------------------------------------------------------------------

    async def is_fit(self, redirect: Redirect) -> bool:
        """Whether no commands run inside, nothing else is mounted there, and no file has another name outside."""
        device = self._tree.inodes.device
        if os.fstat(redirect.lower_fd).st_dev != device or await _holds_mounts(redirect):
            return False
        if not redirect.is_git and _commands_run_in(redirect.lower_fd):
            return False
        found = await answer(lambda: survey(redirect.lower_fd, device))
        if found is None or found.foreign:
            return False
        if found.linked and await self._is_linked_into_tree(redirect.path, found.linked):
            log.info("%s is not redirected: it shares files with the tree", shown(redirect.path))
            return False
        return True

    async def _is_linked_into_tree(self, root: bytes, inodes: frozenset[tuple[int, int]]) -> bool:
        root_fd, ground = self._tree.lower.root_fd, self._tree.ground
        paths = await answer(lambda: list(names_outside(root_fd, root, inodes)))
        if paths is None:
            return True
        for path in paths:
            if await _settled(partial(ground.place, path, is_dir=False)) is Place.TREE:
                return True
        return False

    # -- who uses it -----------------------------------------------------------------------------

    def writers_below(self, node: Node) -> set[OpenFile]:
        """The files that are open for writing through the mount."""
        inodes = self._tree.inodes
        return {
            file
            for file in self._tree.handles.writers()
            if inodes.is_below(file.node, node) and not _is_new_for_git(file)
        }

    def is_quiet(self, redirect: Redirect, before: set[OpenFile]) -> bool:
        """Whether no file below is in use in a way that must not be split between two file systems.

        Locks and shared mappings made through us mean nothing to those who open the file beneath. Both
        are made on files that are open for both reading and writing, or for long (since `before`); plain
        output is neither.
        """
        now = self.writers_below(redirect.node)
        return not any(file in before or file.flags & os.O_ACCMODE == os.O_RDWR for file in now)


def _commands_run_in(directory_fd: int) -> bool:
    for name in _RUN_INSIDE:
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
            return True
    return False


async def _settled(ask: Callable[[], Place]) -> Place:
    """What the ground is once all is read that the answer needs; TREE if that has no end."""
    return await once_fetched(ask, otherwise=Place.TREE, rounds=_ROUNDS)


async def _holds_mounts(redirect: Redirect) -> bool:
    text = os.readlink(b"/proc/self/fd/%d" % redirect.lower_fd)
    listed = not_left_behind(await trio.to_thread.run_sync(mounts))
    return any((mount.mountpoint + b"/").startswith(text + b"/") for mount in listed)


async def answer(ask: Callable[[], T]) -> T | None:
    """What a worker thread says, None if it could not look (OSError)."""
    try:
        return await trio.to_thread.run_sync(ask)
    except OSError:
        return None


def _is_new_for_git(file: OpenFile) -> bool:
    # Git opens what it is about to write for reading, too, and locks by the name alone.
    name = file.node.name
    return file.path.startswith(b".git/") and (name.endswith(b".lock") or name.startswith(b"tmp_"))


def shown(path: bytes) -> str:
    """A path as it is written for people and in JSON."""
    return os.fsdecode(path)
