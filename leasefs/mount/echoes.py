"""Echoes: the events of changes that were made through this mount, of which the kernel need not be told.

Kept is of each name what this mount did last, until its event comes, as long as that is the last that the
kernel was told of the name. Most events can then be passed over without a look at the name: whatever
others do to it later has an event of its own, to come. What must not be passed over is an event that
stands for a change of others as well, see `is_echo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.mount import inotify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leasefs.mount.inodes import Node
    from leasefs.mount.inotify import Event

NAMED = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_WENT = inotify.DELETE | inotify.MOVED_FROM
_WRITTEN = inotify.MODIFY | inotify.CLOSE_WRITE
# In a gathered mask, beside what inotify(7) says: the last event of the name was that something went.
_WENT_LAST = 1 << 32


def gathered(masks: dict[tuple[int, bytes], int], events: Iterable[Event]) -> None:
    """Add events, in their order, to what happened to each name (by watch and name)."""
    for watch, mask, name in events:
        key = watch, name
        before = masks.get(key, 0)
        if mask & _WENT:
            mask |= _WENT_LAST
        elif mask & NAMED:
            before &= ~_WENT_LAST
        masks[key] = before | mask


class Echoes:
    """What this mount did, by the number of the directory and by name."""

    def __init__(self) -> None:
        # The node, if a file of this one name was made; True for something else; False if it was taken away.
        self._ours: dict[int, dict[bytes, Node | bool]] = {}
        # Hears of what is forgotten before its event came: directory, name, and what was done.
        self.outlived: Callable[[int, bytes, Node | bool], None] = lambda _directory, _name, _act: (
            None
        )

    def made(self, directory: Node, name: bytes, file: Node | None = None) -> None:
        """The kernel knows what is at this name: it was made through this mount.

        It is a `file`, if that is new and has no other name.
        """
        if directory.watch >= 0:
            self._ours.setdefault(directory.number, {})[name] = file or True

    def removed(self, directory: Node, name: bytes) -> None:
        """The kernel knows that this name is gone: it was taken away through this mount."""
        if directory.watch >= 0:
            self._ours.setdefault(directory.number, {})[name] = False

    def known(self, directory: Node, name: bytes) -> Node | bool | None:
        """What this mount did there, if that is still to be heard of."""
        names = self._ours.get(directory.number)
        return None if names is None else names.get(name)

    def heard(self, directory: Node, name: bytes) -> Node | bool | None:
        """The same, and it is to be heard of no more: its event came."""
        names = self._ours.get(directory.number)
        if names is None:
            return None
        ours = names.pop(name, None)
        if not names:
            del self._ours[directory.number]
        return ours

    def told_anew(self, directory: Node, name: bytes) -> None:
        """The kernel is being told what is at this name, or that nothing is."""
        names = self._ours.get(directory.number)
        if names is None:
            return
        ours = names.pop(name, None)
        if ours is not None:
            self.outlived(directory.number, name, ours)
        if not names:
            del self._ours[directory.number]

    def all_acts(self) -> dict[tuple[int, bytes], Node | bool]:
        """All that is still to be heard of, by directory and name."""
        return {
            (number, name): act
            for number, names in self._ours.items()
            for name, act in names.items()
        }

    def forget(self, directory: Node) -> None:
        """No event will come from this directory."""
        self._ours.pop(directory.number, None)

    def forget_all(self) -> None:
        """Events were lost."""
        self._ours.clear()


def is_echo(ours: Node | bool | None, mask: int) -> bool:
    """Whether the kernel knows all that a gathered mask says, because this mount did it (`ours`).

    What is gone from a name after the last event of it is gone as the kernel believes. Something is made at
    a name once, unless it goes from it in between; so if no more happened it is what this mount made. Not so
    for what was moved there: one move replaces what the other brought, and inotify(7) may tell
    both as one. Bytes written meanwhile matter only to a kernel that believes to know the attributes.
    """
    if ours is False:
        return bool(mask & _WENT_LAST)
    if ours is None or ours is True or mask & NAMED != inotify.CREATE:
        return False
    beside = mask & ~inotify.CREATE
    return not beside or (ours.told is None and not beside & ~_WRITTEN)
