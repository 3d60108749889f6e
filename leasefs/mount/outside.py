"""What others change in the lower tree: another agent's mount, a host tool, a person's editor.

Each directory that the kernel was told of is watched before it is read, so nothing goes unnoticed in
between. What an event says is never trusted: the name is looked at again, and compared with what the
kernel was told. If that is still true, the event was the echo of a change made through this mount, and
the kernel need not be told. No time is involved in this. An echo costs one stat, or none where events
themselves leave nothing open (`echoes.py`).
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

import trio

from leasefs.mount import inotify
from leasefs.mount.echoes import NAMED, Echoes, gathered, is_echo
from leasefs.mount.kernel_cache import AGAIN_AFTER_S
from leasefs.mount.noting import Noting
from leasefs.mount.pace import Pace
from leasefs.mount.watches import GONE, Watches

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.changes import ChangeLog
    from leasefs.mount.foreign import Foreign
    from leasefs.mount.inodes import Inodes, Node
    from leasefs.mount.kernel_cache import KernelCache
    from leasefs.mount.lower import Lower
    from leasefs.mount.shapes import Stat

log = logging.getLogger(__name__)

# A name came or went, or nobody knows what did.
_OF_NAMES = NAMED | inotify.OVERFLOW | inotify.IGNORED
# Names looked at before the requests get their turn again.
_SLICE = 64


class Outside:
    """Watches, compares, and tells the kernel. One for each mount."""

    def __init__(
        self,
        inodes: Inodes,
        lower: Lower,
        cache: KernelCache,
        changes: ChangeLog,
        foreign: Foreign | None = None,
        *,
        watched: bool,
    ) -> None:
        """Not `watched`: the lower file system is one whose changes inotify(7) does not all tell.

        `foreign` judges who made each change.
        """
        self._inodes = inodes
        self._lower = lower
        self._cache = cache
        self._changes = changes
        self._foreign = foreign
        self._watches = Watches(inodes, lower, changes, foreign, watched=watched)
        self.watch = self._watches.watch
        self.watch_spare = self._watches.watch_spare
        self._echoes = Echoes()
        # What this mount did itself, and what the kernel is being told: operations say so.
        self.made_here = self._echoes.made
        self.removed_here = self._echoes.removed
        self.looked_up = self._echoes.told_anew
        # Bytes or attributes of a node are being changed through this mount.
        self.changed_here: Callable[[Node], None] = lambda _: None
        # Names of directories that others took away, until their nodes are looked for.
        self._gone_directories: set[tuple[Node | None, bytes]] = set()
        # Numbers of inodes that may change without an event.
        self._doubted: set[int] = set()
        # Events that nobody has looked at yet: those of each name (by watch) as one.
        self._waiting: deque[tuple[tuple[int, bytes], int]] = deque()
        self._noting = Noting(inodes, changes)
        # How often the kernel dropped events.
        self.losses = 0
        if foreign is not None:
            foreign.attach(inodes)
            self.changed_here = foreign.own.changed
            self._echoes.outlived = foreign.own.told
        if self._watches.fd >= 0:
            changes.cover()
        self.watch(inodes.root)

    def close(self) -> None:
        """Watch nothing any more."""
        self._watches.close()

    @property
    def watched(self) -> int:
        """How many directories are watched."""
        return len(self._watches)

    # -- watching ------------------------------------------------------------------------------

    def unwatch(self, directory: Node) -> None:
        """The directory was removed."""
        if self._watches.unwatch(directory):
            self._echoes.forget(directory)

    def leave(self, directory: Node) -> None:
        """The lower file system serves this directory and all below itself from now on (`redirects`)."""
        for node in self._watches:
            if self._inodes.is_below(node, directory):
                self._drop(node)
                self.unwatch(node)

    def act(self, directory: Node, name: bytes) -> Node | bool | None:
        """What this mount did to the name, as long as that is still to be heard of (see `Echoes`)."""
        return self._echoes.known(directory, name)

    # -- what others did -----------------------------------------------------------------------

    async def run(self) -> None:
        """React to events until cancelled."""
        if self._watches.fd < 0:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._note_again)
            pace = Pace()
            while True:
                await trio.lowlevel.wait_readable(self._watches.fd)
                await trio.sleep(pace.pause_s(trio.current_time()))
                self._gather()
                names = any(mask & _OF_NAMES for _, mask in self._waiting)
                await self._react()
                pace.looked(trio.current_time(), names=names)

    async def _react(self) -> None:
        while self._waiting:
            self._look_at_waiting(_SLICE)
            await trio.lowlevel.checkpoint()

    async def _note_again(self) -> None:
        """What the kernel is told a second time may have been looked at between the two (see `kernel_cache`)."""
        while True:
            await trio.sleep(2 * AGAIN_AFTER_S)
            self._noting.again()

    def doubt(self, node: Node) -> None:
        """This file may change without anybody telling; who waits for `settle` is to see it as it is."""
        self._doubted.add(node.number)

    async def settle(self) -> None:
        """Return once all that others did until now is noted, and the kernel was told of it."""
        self._doubted = {number for number in self._doubted if self._inodes.get(number) is not None}
        for number in self._doubted:
            self._cache.drop_attributes(number)
        self._gather()
        self._look_at_waiting(len(self._waiting))
        self._watch_missed()
        await self._cache.settled()

    def _watch_missed(self) -> None:
        for directory in list(self._watches.missed):
            known = self._inodes.get(directory.number) is directory and directory.parent is not None
            if known:
                self._changes.everything()
            if not known or self.watch(directory):
                self._watches.missed.discard(directory)

    def _gather(self) -> None:
        """Take what the kernel has: each directory and name once, with all that happened to it."""
        if self._foreign is not None:
            self._foreign.own.turn()
            self._changes.turn()  # so that the next write through each handle is heard of
        masks: dict[tuple[int, bytes], int] = {}
        while events := self._watches.read():
            gathered(masks, events)
        self._waiting.extend(masks.items())

    def _look_at_waiting(self, most: int) -> None:
        for _ in range(min(most, len(self._waiting))):
            (watch, name), mask = self._waiting.popleft()
            if mask & inotify.OVERFLOW:
                self._lost()
                continue
            directory = self._watches.of(watch)
            if directory is None:
                continue
            if mask & inotify.IGNORED:
                self._end_of(directory)
                continue
            try:
                self._look(directory, name, mask)
            except OSError as error:
                self._drop(directory)
                if error.errno not in GONE:
                    self._changes.everything()
                if self._foreign is not None:
                    self._foreign.to_list_again(directory)
        if not self._waiting:
            self._let_go()
            if self._foreign is not None:
                self._foreign.own.settled()

    def _let_go(self) -> None:
        """A directory that others removed would stay on the disk as long as it is open here."""
        gone, self._gone_directories = self._gone_directories, set()
        if not gone:
            return
        for node in self._watches:
            lost = (node.parent, node.name) in gone or node.parent is None
            if lost and self._lower.keeps_removed(node):
                self._end_of(node)

    def _end_of(self, directory: Node) -> None:
        self._drop(directory)
        self._inodes.retire(directory)
        self._lower.forget(directory)
        self.unwatch(directory)

    def _look(self, directory: Node, name: bytes, mask: int) -> None:
        if not name:
            self._compare(directory, self._lower.stat(directory))
            return
        self._noting.name(directory, name, mask)
        what_of = self._echoes.heard if mask & NAMED else self._echoes.known
        ours = what_of(directory, name)
        if is_echo(ours, mask):
            if self._foreign is not None:
                self._foreign.echo(directory, name, ours)
            return
        try:
            found = self._lower.lstat(directory, name)
        except FileNotFoundError:
            if self._foreign is not None:
                self._foreign.gone(directory, name, mask, ours)
            told = ours is not False
            if told:
                self._gone(directory, name, is_dir=bool(mask & inotify.IS_DIRECTORY))
        else:
            if self._foreign is not None:
                self._foreign.found(directory, name, mask, found, ours)
            unexpected = bool(mask & NAMED) and not ours
            told = self._look_at_found(directory, name, mask, found, unexpected=unexpected)
        if told:
            self._noting.name_once_more(directory, name, mask)

    def _look_at_found(
        self, directory: Node, name: bytes, mask: int, found: Stat, *, unexpected: bool
    ) -> bool:
        """Whether the kernel had to be told."""
        node = self._inodes.find(found)
        if found.st_nlink > 1 and not mask & inotify.IS_DIRECTORY:
            self._noting.linked(directory, name, node, found, made=bool(mask & inotify.CREATE))
        if node is None or not node.is_at(directory, name):
            if mask & NAMED:
                self._arrived(directory, name, node, found)
            return bool(mask & NAMED)
        if node.told is None:
            # The kernel asks for size and times before it uses them, but goes on judging by the mode, and
            # may believe that nothing is here.
            directory.listing = None
            if mask & inotify.ATTRIB:
                self._cache.drop_attributes(node.number)
                if node.is_dir:
                    self._noting.tree(node)
            if unexpected:
                self._cache.expire_name(directory.number, name)
            return unexpected
        differs = self._compare(node, found)
        if differs and mask & NAMED:
            self._name_changed(directory, name)
        return differs

    def _compare(self, node: Node, found: Stat) -> bool:
        """Whether the kernel was told something else about the inode; then it is told so."""
        if node.told is None or node.told == stamp(found):
            return False
        self._cache.drop_inode(node.number)
        self._drop_told(node)
        if node.is_dir:
            self._noting.tree(node)
        return True

    def _arrived(self, directory: Node, name: bytes, node: Node | None, found: Stat) -> None:
        self._name_changed(directory, name)
        if node is not None:
            # It moved here: what lies below must be known under its new name.
            learnt = self._inodes.learn(directory, name, found)
            if learnt is not node:
                self._inodes.drop_unknown(learnt)  # nor is the kernel told of it yet
            self._cache.drop_inode(node.number)
            self._drop_told(node)

    def _gone(self, directory: Node, name: bytes, *, is_dir: bool) -> None:
        if is_dir:
            self._gone_directories.add((directory, name))
        self._name_changed(directory, name)

    def _name_changed(self, directory: Node, name: bytes) -> None:
        self._cache.expire_name(directory.number, name)
        self._cache.drop_attributes(directory.number)
        self._drop_told(directory)
        directory.listing = None

    def _drop_told(self, node: Node) -> None:
        node.told = None
        for parent, _ in node.names():
            parent.listing = None

    def _drop(self, directory: Node) -> None:
        self._cache.drop_inode(directory.number)
        if directory.parent is not None:
            self._cache.expire_name(directory.parent.number, directory.name)
        self._drop_told(directory)
        directory.listing = None

    def _lost(self) -> None:
        """Events were lost: nothing that the kernel believes is sure any more."""
        self.losses += 1
        log.warning(
            "too many changes at once beneath the mount: looking at all that is cached again"
        )
        self._changes.everything()
        if self._foreign is not None:
            self._foreign.lost(self._echoes.all_acts())
        self._echoes.forget_all()
        by_name = not self._cache.expire_all_names()
        for node in list(self._inodes):
            node.listing = None
            if by_name:
                for parent, name in node.names():
                    self._cache.expire_name(parent.number, name)
            if node.told is not None:
                node.told = None
                self._cache.drop_inode(node.number)


def stamp(found: Stat) -> int:
    """A number for the attributes that a change made elsewhere would show in."""
    return hash(
        (
            found.st_ctime_ns,
            found.st_mtime_ns,
            found.st_size,
            found.st_mode,
            found.st_uid,
            found.st_gid,
            found.st_nlink,
        )
    )
