"""What git is told of changes made beneath the mount: from events to the log of changes.

Every event is noted, that of a change made through this mount as well. Nothing tells the two apart for
sure: what the kernel was told may be newer than the event, and then nobody but the event knows. One note
too many costs git one look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.mount import inotify

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.changes import ChangeLog
    from leasefs.mount.inodes import Inodes, Node
    from leasefs.mount.shapes import Stat

_MOVED = inotify.MOVED_FROM | inotify.MOVED_TO
_MADE_OR_REMOVED = inotify.CREATE | inotify.DELETE


class Noting:
    """Notes what events say; one for each mount."""

    def __init__(self, inodes: Inodes, changes: ChangeLog) -> None:
        self._inodes = inodes
        self._changes = changes
        self._once_more: list[tuple[Callable[[bytes], None], bytes]] = []

    def name(self, directory: Node, name: bytes, mask: int) -> None:
        """Something happened to what is at this name."""
        if mask & inotify.IS_DIRECTORY:
            self._tell(self._kind(mask), directory, name)
            return
        path = self._inodes.path_at(directory, name)
        if path is None:
            self._changes.everything()
        else:
            self._changes.changed(path)

    def name_once_more(self, directory: Node, name: bytes, mask: int) -> None:
        """To be noted again at the next `again`."""
        kind, path = self._kind(mask), self._inodes.path_at(directory, name)
        if kind is not None and path is not None:
            self._once_more.append((kind, path))

    def tree(self, directory: Node) -> None:
        """A directory's mode may have changed, and with it what can be reached below."""
        path = self._inodes.path(directory)
        if path is None:
            self._changes.everything()
        else:
            self._changes.tree_changed(path)
            self._once_more.append((self._changes.tree_changed, path))

    def linked(
        self, directory: Node, name: bytes, node: Node | None, found: Stat, *, made: bool
    ) -> None:
        """A file of several names changed; or one was `made`, and git may trust it under a forgotten one."""
        known = set(node.names() if node is not None else ())
        for above, other in known:
            self._tell(self._changes.changed, above, other)
        if made and len(known | {(directory, name)}) < found.st_nlink:
            path = self._inodes.path_at(directory, name)
            if path is None or not path.startswith(b".git/"):
                self._changes.everything()

    def again(self) -> None:
        """Note for the second time."""
        noted, self._once_more = self._once_more, []
        for kind, path in noted:
            kind(path)

    def _kind(self, mask: int) -> Callable[[bytes], None] | None:
        if not mask & inotify.IS_DIRECTORY:
            return self._changes.changed
        if mask & _MOVED:
            return self._changes.tree_changed
        if mask & _MADE_OR_REMOVED:
            return self._changes.directory_changed
        return None  # attributes, for which see `tree`

    def _tell(self, kind: Callable[[bytes], None] | None, directory: Node, name: bytes) -> None:
        path = self._inodes.path_at(directory, name)
        if path is None:
            self._changes.everything()
        elif kind is not None:
            kind(path)
