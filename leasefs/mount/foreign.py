"""Own or foreign: whether a change of the tree came through this mount (P8).

Each event leads to a look at its name, and what is there is compared with what was there at the last look. A
difference that this mount made is known from what it did since (`foreign_own`); any other is somebody else's, and is
a suspicion until `foreign_report` has asked whether another mount of the tree made it. How many events there were,
and which, decides nothing, but for what the difference is called.

What is told is what git could keep: files and symlinks that came, went or were written, and permissions. Times
and owners alone are nobody's work; nor are directories, but for what is in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.mount import inotify
from leasefs.mount.echoes import NAMED
from leasefs.mount.foreign_known import LEFT_HERE, Known, State, state_of
from leasefs.mount.foreign_own import OwnChanges
from leasefs.mount.ground import CONTROL_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.inodes import Inodes, Node
    from leasefs.mount.shapes import Stat

_GIT = b".git"
_IGNORE = b".gitignore"
_ARRIVED = inotify.CREATE | inotify.MOVED_TO
_REGULAR = 0o100000
# Of a file that changed before anybody had looked at it: written, or made.
_NEW = "new"


class Foreign:
    """Judges what happens in the directories that are watched. Plain Python on the loop, no I/O."""

    def __init__(self, suspect: Callable[[bytes, str], None], wall_ns: Callable[[], int]) -> None:
        """Of nothing yet.

        Args:
            suspect: hears of each path that was changed, it seems by others, and what happened to it:
                created, modified, deleted, mode.
            wall_ns: CLOCK_REALTIME, by which file systems give times to inodes.
        """
        self._suspect_path = suspect
        self._wall_ns = wall_ns
        self.own = OwnChanges()
        self._inodes: Inodes | None = None
        self._known: dict[Node, Known] = {}
        # What changed before was not changed under our eyes.
        self.began_ns = wall_ns()
        # A directory is to be listed, because it is new; if it `arrived`, all in it is new to the tree.
        self.to_list: Callable[[Node, bytes, bool], None] = lambda _directory, _name, _arrived: None
        # What is known of a directory may not be so.
        self.to_list_again: Callable[[Node], None] = lambda _: None

        # Rules about scratch may have changed below a directory, and so what is anybody's business.
        self.rules_changed: Callable[[Node], None] = lambda _: None
        # How many directories are not watched, for want of room, as far as is known; None if nothing is.
        self.unwatched: int | None = 0
        # All of the tree is to be looked at again.
        self.events_lost: Callable[[], None] = lambda: None

    def attach(self, inodes: Inodes) -> None:
        """These are the inodes of the tree."""
        self._inodes = inodes

    # -- which directories ---------------------------------------------------------------------

    def watching(self, directory: Node) -> None:
        """From now on everything that happens in this directory has an event."""
        path = self._inodes.path(directory) if self._inodes is not None else None
        if path is not None and _GIT not in path.split(b"/"):
            self._known.setdefault(directory, Known())

    def forget(self, directory: Node) -> None:
        """It is watched no more, or is not in the tree."""
        self._known.pop(directory, None)

    def known(self, directory: Node) -> Known | None:
        """What is known of a directory; None if nobody judges it."""
        return self._known.get(directory)

    def directories(self) -> list[Node]:
        """All that are judged."""
        return list(self._known)

    def left_out(self, directories: int) -> None:
        """There is no room to watch so many (more). Files may change there as they like from now on."""
        if self.unwatched is not None:
            self.unwatched += directories
        self.began_ns = self._wall_ns()

    def lost(self, acts: dict[tuple[int, bytes], Node | bool]) -> None:
        """Events were lost; `acts` are what this mount did of which nobody has heard yet."""
        self.own.keep(acts)
        self.events_lost()

    # -- what an event led to ------------------------------------------------------------------

    def echo(self, directory: Node, name: bytes, made: Node | bool | None) -> None:
        """Nothing but what this mount did itself happened to the name; nobody looked at it."""
        known = self._known.get(directory)
        if known is None:
            return
        if name == _IGNORE:
            self.rules_changed(directory)
        if made and not isinstance(made, bool):
            known.put(name, State(_REGULAR, _inode(made), LEFT_HERE, 0, self._wall_ns()))
        else:
            known.drop(name)

    def gone(self, directory: Node, name: bytes, mask: int, act: Node | bool | None) -> None:
        """Nothing is at this name; `act` is what this mount did to it last, as far as `echoes` knows."""
        known = self._known.get(directory)
        if known is None:
            return
        if name == _IGNORE:
            self.rules_changed(directory)
        before = known.get(name)
        known.drop(name)
        if act is None:
            act = self.own.act(directory.number, name)
        if act is False:
            return
        if mask & inotify.IS_DIRECTORY or (before is not None and before.is_directory):
            self._directory_gone(directory, name, before)
        elif before is not None or act is not None or not (known.listed or mask & _ARRIVED):
            self._suspect(directory, name, "deleted")

    def found(
        self, directory: Node, name: bytes, mask: int, found: Stat, act: Node | bool | None
    ) -> None:
        """This is at the name."""
        known = self._known.get(directory)
        if known is None:
            return
        now, before = state_of(found), known.get(name)
        if now == before and not (now.is_directory and mask & NAMED):
            return
        if name == _IGNORE:
            self.rules_changed(directory)
        known.put(name, now)
        if act is None:
            act = self.own.act(directory.number, name)
        ours = is_made(act, now)
        if now.is_directory:
            if mask & _ARRIVED:
                self.to_list(directory, name, not ours)
        elif not ours and not self._is_changed_here(known, before, now, mask):
            if act is None:
                what = self._what(known, before, now, mask)
            else:
                what = (
                    "modified" if act else "created"
                )  # others put it where this mount had just been
            if what:
                self._suspect(directory, name, what)

    def _is_changed_here(self, known: Known, before: State | None, now: State, mask: int) -> bool:
        if before is None:
            expected = not known.listed and not mask & NAMED
        else:
            expected = before.number == now.number
        return expected and self.own.has_changed(now.number)

    def _what(self, known: Known, before: State | None, now: State, mask: int) -> str:
        """What happened to a name that this mount did nothing to; "" if that is nothing to speak of."""
        if before is None:
            return self._what_unknown(now, mask, listed=known.listed)
        if mask & inotify.MODIFY and now.is_changed_since(before):
            return "modified"
        written = now.is_written_since(before)
        if (written and mask & (inotify.CLOSE_WRITE | NAMED)) or now.number != before.number:
            return "modified"
        changed = mask & inotify.ATTRIB and now.is_changed_since(before)
        return "mode" if changed and now.has_other_permissions_than(before) else ""

    def _what_unknown(self, now: State, mask: int, *, listed: bool) -> str:
        if listed or mask & _ARRIVED:
            return "created"
        written = mask & inotify.MODIFY and now.ctime_ns > self.began_ns
        closed = mask & inotify.CLOSE_WRITE and now.mtime_ns > self.began_ns
        return "modified" if written or closed else ""

    def _directory_gone(self, directory: Node, name: bytes, before: State | None) -> None:
        """All that was in it is gone from where it was, wherever it is now."""
        inodes, place = self._inodes, self._path(directory, name)
        node = self._directory_at(directory, name, before)
        if inodes is None or node is None or place is None:
            return
        top = inodes.path(node)
        for below in [one for one in self._known if inodes.is_below(one, node)]:
            path = inodes.path(below)
            known = self._known.pop(below)
            if path is None or top is None:
                continue
            for file, state in known.items():
                if not state.is_directory:
                    self._suspect_path(place + path[len(top) :] + b"/" + file, "deleted")

    def _directory_at(self, directory: Node, name: bytes, before: State | None) -> Node | None:
        if before is not None and self._inodes is not None:
            node = self._inodes.get(before.number)
            return node if node in self._known else None
        here = (one for one in self._known if one.parent is directory and one.name == name)
        return next(here, None)

    # -- what a listing found ------------------------------------------------------------------

    def listed(
        self,
        directory: Node,
        name: bytes,
        found: Stat,
        act: Node | bool | None,
        how: str,
        *,
        is_tracked: Callable[[bytes], bool],
    ) -> None:
        """A listing found this.

        `how` is first, where nothing was known but from events; arrived, where all is new to the tree; again,
        after events were lost; or anew, where it was nobody's business until now.
        """
        known = self._known.get(directory)
        if known is None:
            return
        now, before = state_of(found), known.get(name)
        if now == before or (how != "again" and before is not None):
            return
        known.put(name, now)
        act = self.own.act(directory.number, name) if act is None else act
        if how == "anew" or now.is_directory or is_made(act, now) or self._is_ours(before, now):
            return
        what = self._what_listed(known, before, now, how)
        if what == _NEW:
            path = self._path(directory, name)
            what = "modified" if path is not None and is_tracked(path) else "created"
        if what:
            self._suspect(directory, name, what)

    def _what_listed(self, known: Known, before: State | None, now: State, how: str) -> str:
        if before is not None:
            return self._what(known, before, now, inotify.CLOSE_WRITE | inotify.ATTRIB)
        if how == "first":
            return _NEW if now.ctime_ns > self.began_ns else ""
        return "created"

    def _is_ours(self, before: State | None, now: State) -> bool:
        return self.own.has_changed(now.number) and (before is None or before.number == now.number)

    def missing(self, directory: Node, name: bytes, act: Node | bool | None) -> None:
        """A listing after events were lost did not find what was known."""
        self.gone(directory, name, 0, act)

    # -- suspicions ----------------------------------------------------------------------------

    def _suspect(self, directory: Node, name: bytes, what: str) -> None:
        path = self._path(directory, name)
        if path is not None:
            self._suspect_path(path, what)

    def _path(self, directory: Node, name: bytes) -> bytes | None:
        """None for what is not told of: git's own, the control directory, what has no path."""
        if self._inodes is None or name == _GIT:
            return None
        path = self._inodes.path_at(directory, name)
        return None if path == CONTROL_NAME else path


def is_made(act: Node | bool | None, now: State) -> bool:
    """Whether what is there now is what this mount made there."""
    if act is None or isinstance(act, bool):
        return bool(act)
    return _inode(act) == now.number


def _inode(node: Node) -> int:
    return node.key if isinstance(node.key, int) else node.key[1]
