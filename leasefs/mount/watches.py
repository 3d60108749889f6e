"""Which directories of the lower tree are watched, and by which watch: inotify(7) by node.

Two have an interest. What the kernel was told of must be watched, or its caches are wrong. All other directories of
the tree are watched for foreign writes alone, as many as there is room for, and make room when they have to.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import deque
from typing import TYPE_CHECKING

from leasefs.mount.inotify import Inotify
from leasefs.mount.mountinfo import mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.changes import ChangeLog
    from leasefs.mount.foreign import Foreign
    from leasefs.mount.inodes import Inodes, Node
    from leasefs.mount.inotify import Event
    from leasefs.mount.lower import Lower

log = logging.getLogger(__name__)

# What says that the directory itself is not there any more, which is told as a name in the one above.
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_MOST = "/proc/sys/fs/inotify/max_user_watches"


class Watches:
    """The watches of one mount. `missed` are directories that were not where they should be."""

    def __init__(
        self,
        inodes: Inodes,
        lower: Lower,
        changes: ChangeLog,
        foreign: Foreign | None,
        *,
        watched: bool,
    ) -> None:
        """Not `watched`: the lower file system is one whose changes inotify(7) does not all tell."""
        self._inodes = inodes
        self._lower = lower
        self._changes = changes
        self._foreign = foreign
        self._inotify = _inotify() if watched else None
        self._watched: dict[int, Node] = {}
        # Those watched for foreign writes alone when they were, newest last; others of this user need some, too.
        self._spare: deque[Node] = deque()
        self._most_spare = _most_watches() // 2
        self.missed: set[Node] = set()

    def __len__(self) -> int:
        return len(self._watched)

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._watched.values()))

    @property
    def fd(self) -> int:
        """Readable when there are events; -1 if nothing can be watched."""
        return -1 if self._inotify is None else self._inotify.fd

    def close(self) -> None:
        """Watch nothing any more."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def read(self) -> list[Event]:
        """Some thousands of events, none if nothing happened."""
        return [] if self._inotify is None else self._inotify.read()

    def of(self, watch: int) -> Node | None:
        """The directory with this watch."""
        return self._watched.get(watch)

    def watch(self, directory: Node) -> bool:
        """Watch a directory that the kernel is told of; whether it is newly watched, so that what was read is old.

        The watch outlives the kernel's interest: git may trust what it saw there long ago (see `changes`).
        """
        if self._inotify is None or directory.watch >= 0 or directory.orphan_fd >= 0:
            return False
        if self._is_elsewhere(directory):
            self._changes.uncover()
            return False
        try:
            self._add(self._inotify, directory, make_room=True)
        except OSError as error:
            if error.errno in GONE:
                self.missed.add(directory)
                return False
            if error.errno == errno.ENOSPC and self._changes.covered:
                log.warning(
                    "no more directories can be watched: what others change may be seen a second late; "
                    "raise fs.inotify.max_user_watches (sysctl)"
                )
            self._changes.uncover()
            return False
        return True

    def watch_spare(self, directory: Node) -> bool:
        """Watch a directory for foreign writes alone; whether it is watched.

        Raises:
            OSError: ENOSPC if there is no room for more of these; or it is not where it should be.
        """
        if self._inotify is None or self._is_elsewhere(directory):
            return False
        if directory.watch < 0:
            if len(self._spare) >= self._most_spare:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._add(self._inotify, directory, make_room=False)
            self._spare.append(directory)
        return True

    def _is_elsewhere(self, directory: Node) -> bool:
        """Whether it is on another file system, of which nobody knows what inotify(7) tells."""
        return isinstance(directory.key, tuple) and directory is not self._inodes.root

    def _add(self, inotify: Inotify, directory: Node, *, make_room: bool) -> None:
        watch = self._new_watch(inotify, directory, make_room=make_room)
        directory.watch = watch
        directory.lookups += 1
        self._watched[watch] = directory
        if self._foreign is not None:
            self._foreign.watching(directory)

    def _new_watch(self, inotify: Inotify, directory: Node, *, make_room: bool) -> int:
        while True:
            try:
                return inotify.watch(self._lower.directory(directory))
            except OSError as error:
                if error.errno != errno.ENOSPC or not (make_room and self._give_one_up()):
                    raise

    def _give_one_up(self) -> bool:
        while self._spare:
            node = self._spare.pop()
            # One reference is the watch's own: the kernel knows nothing of this directory.
            if node.watch >= 0 and node.lookups == 1:
                self.unwatch(node)
                if self._foreign is not None:
                    self._foreign.left_out(1)
                return True
        return False

    def unwatch(self, directory: Node) -> bool:
        """Watch this directory no more; whether it was watched."""
        watch, directory.watch = directory.watch, -1
        if watch < 0 or self._watched.get(watch) is not directory:
            return False
        del self._watched[watch]
        if self._foreign is not None:
            self._foreign.forget(directory)
        if self._inotify is not None:
            self._inotify.unwatch(watch)
        for gone in self._inodes.forget(directory.number, 1):
            self._lower.forget(gone)
        return True


def _inotify() -> Inotify | None:
    try:
        return Inotify()
    except OSError as error:
        log.warning(
            "nothing can be watched (%s): what others change may be seen a second late; "
            "raise fs.inotify.max_user_instances (sysctl)",
            error.strerror,
        )
        return None


def _most_watches() -> int:
    with open(_MOST, encoding="ascii") as file:
        return int(file.read())


# What changes on these only through this host's kernel, so that inotify(7) tells of everything.
_LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "f2fs", "zfs", "overlay", "bcachefs", "jfs"}
)


def is_local(root_fd: int) -> bool:
    """Whether the directory is on a file system of which inotify(7) tells all changes."""
    device = os.fstat(root_fd).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    kinds = {mount.filesystem for mount in mounts() if mount.device == name}
    return bool(kinds) and kinds <= _LOCAL
