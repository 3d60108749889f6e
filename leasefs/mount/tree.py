"""What all operations share: the mounted tree as one value, and how things in it are named.

The operations themselves are in `reading`, `opening`, `naming`, `renaming` and `attributes`. None of
them knows FUSE: they take numbers, bytes and a caller, and raise OSError or `Refusal`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.paths import MAX_PATH_BYTES
from leasefs.core.policy import Allowed, Op, Place, Reason, Refused, Target
from leasefs.mount.gate import Wanting
from leasefs.mount.handles import Handles, OpenFile
from leasefs.mount.inodes import ROOT_NUMBER
from leasefs.mount.listing import Listings
from leasefs.mount.lower import Lower, stale
from leasefs.mount.name import Name
from leasefs.mount.outside import stamp
from leasefs.mount.redirects import Redirects
from leasefs.mount.saves import Companions
from leasefs.mount.timeouts import SURE_S, UNSURE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.mount.changes import ChangeLog
    from leasefs.mount.control_dir import ControlDir
    from leasefs.mount.gate import Gate
    from leasefs.mount.ground import Ground
    from leasefs.mount.inodes import Inodes, Node
    from leasefs.mount.kernel_cache import KernelCache
    from leasefs.mount.links import LinkedNames
    from leasefs.mount.outside import Outside
    from leasefs.mount.owner import Owner
    from leasefs.mount.readings import Readings
    from leasefs.mount.shapes import Stat

# What the kernel adds to the path of an open file whose name is gone (d_path, fs/d_path.c).
_DELETED = b" (deleted)"
# Looked up in its class, a member takes Python 3.11 longer than all that is done with it (`policy.Op`).
_TREE = Place.TREE


# Of each answer: what a NamedTuple has of its own for this is written in Python.
_new = tuple.__new__


class Entry(NamedTuple):
    """What a lookup answers: the number for the kernel; the one that is `shown`, and the attributes, for users.

    The kernel may take the name to lead there for `entry_s` seconds.
    """

    number: int
    shown: int
    stat: Stat
    entry_s: float = UNSURE_S
    attr_s: float = UNSURE_S


@dataclass(slots=True)
class Tree:
    """A mounted tree. `root_fd` was opened before mounting and is closed by whoever opened it."""

    inodes: Inodes
    lower: Lower
    gate: Gate
    ground: Ground
    links: LinkedNames
    owner: Owner
    control: ControlDir
    outside: Outside
    changes: ChangeLog
    cache: KernelCache
    listings: Listings = field(default_factory=Listings)
    handles: Handles = field(default_factory=Handles)
    companions: Companions = field(default_factory=Companions)
    # Kept where leases come after the reading; else nobody asks.
    readings: Readings | None = None
    redirects: Redirects = field(init=False)

    def __post_init__(self) -> None:
        self.redirects = Redirects(self.inodes)
        self.inodes.is_open = self._is_open
        self.changes.unseen = self.redirects.unseen

    def close(self) -> None:
        """Let go of all that is open."""
        self.handles.close_all()
        self.outside.close()
        self.lower.close()

    def _is_open(self, node: Node) -> bool:
        return self.handles.is_open(node) or self.lower.retries.is_held(node)

    # -- finding -------------------------------------------------------------------------------

    def node(self, number: int) -> Node:
        """The node that the kernel means. ESTALE if it was never told of it."""
        node = self.inodes.get(number)
        if node is None:
            raise stale("unknown inode number")
        return node

    def directory(self, number: int, name: bytes, op: Op, pid: int) -> Node:
        """The directory in which `name` is about to change. Refuses the control directory."""
        if number == ROOT_NUMBER and name == self.control.name:
            number = self.control.number
        return self.inodes.get(number) or self.subject(number, op, pid)

    def subject(self, number: int, op: Op, pid: int) -> Node:
        """The node that is about to change. Refuses what belongs to the control directory."""
        if self.control.owns(number):
            self.gate.refuse(Refused(Reason.CONTROL, op, self.control.name), pid)
        return self.node(number)

    def stat(self, node: Node) -> os.stat_result:
        """The node's attributes, through an open handle if no name leads to it any more."""
        try:
            return self.lower.stat(node)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            for fd in self.handles.descriptors_of(node):
                return os.fstat(fd)
            raise

    def look(self, parent: Node, name: bytes) -> os.stat_result | None:
        """What is at this name, or None."""
        try:
            return os.stat(name, dir_fd=self.lower.directory(parent), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def entry(self, parent: Node, name: bytes, found: os.stat_result) -> Entry:
        """Learn what was found, and count one lookup: the kernel will be told of it."""
        node = self.inodes.learn(parent, name, found)
        node.lookups += 1
        self.outside.looked_up(parent, name)
        return self.told(node, found)

    def new_node(self, parent: Node, name: bytes, found: os.stat_result) -> Node:
        """Learn what was just made there through this mount; the kernel is to be `told` of it."""
        node = self.inodes.learn(parent, name, found)
        node.lookups += 1
        alone = node.kind != stat.S_IFDIR and found.st_nlink == 1
        self.outside.made_here(parent, name, node if alone else None)
        self.names_changed(parent)
        return node

    def told(self, node: Node, found: os.stat_result) -> Entry:
        """The kernel is about to be told these attributes. How long they hold depends on who watches."""
        parent = node.parent
        watched = parent is not None and parent.watch >= 0
        if node.kind == stat.S_IFDIR:
            native = node.number in self.redirects.brief
            if not native and node.watch < 0 and self.outside.watch(node):
                # It may have changed before anybody watched.
                found = os.fstat(self.lower.directory(node))
            sure = node.watch >= 0
        else:
            sure = watched and found.st_nlink == 1 and isinstance(node.key, int)
            if found.st_nlink > 1:
                node.linked = True
                if self.changes.covered:
                    self._doubt(node)
            if node.kind == stat.S_IFLNK:
                self._may_be_another(node, found)
        node.told = stamp(found)
        entry_s = SURE_S if watched else UNSURE_S
        if self.redirects.brief:
            entry_s = self.redirects.brief.get(node.number, entry_s)
        attr_s = SURE_S if sure else UNSURE_S
        return _new(Entry, (node.number, node.shown, found, entry_s, attr_s))

    def _may_be_another(self, link: Node, found: Stat) -> None:
        """A symlink's text never changes, so the kernel keeps it; but its number may be in use again."""
        made = (found.st_size, found.st_mtime_ns, 0)
        if link.stamp not in (None, made):
            self.cache.drop_inode(link.number)
        link.stamp = made

    def _doubt(self, node: Node) -> None:
        """A file with several names may be written under one that nobody watches.

        What is not tracked may be so later, with no further question by the kernel; but not scratch.
        """
        for path in self.inodes.paths(node):
            with suppress(Wanting):
                if self.ground.place(path, is_dir=False) is not _TREE:
                    continue
            self.changes.doubt(path)
            self.outside.doubt(node)

    def nothing_s(self, parent: Node) -> float:
        """How long the kernel may remember that a name in this directory is not there."""
        if parent.watch < 0 or parent is self.inodes.root or not self.cache.forgets_all:
            # What is missing in the root, and anything before Linux 6.16, cannot be taken back when events were lost.
            return UNSURE_S
        return SURE_S

    def forget(self, number: int, lookups: int) -> None:
        """The kernel dropped `lookups` references to an inode."""
        for node in self.inodes.forget(number, lookups):
            self.lower.forget(node)
            node.told = None
            if node.is_dir:
                self.listings.forget(node)

    # -- describing, for the gate --------------------------------------------------------------

    def path_of(self, parent: Node, name: bytes) -> bytes:
        """The path of a name below a directory. ESTALE if the directory is not where it was."""
        above = self.lower.path(parent)
        return above + b"/" + name if above else name

    def target(
        self,
        parent: Node,
        name: bytes,
        found: os.stat_result | None,
        *,
        is_dir: bool | None = None,
        moves: bool = False,
        path: bytes | None = None,
    ) -> Name:
        """A name that is about to change.

        `is_dir` says what will be there, if not what is there now. `moves` is set where everything
        below a directory moves with it. `path` is that of the name, if `path_of` was just asked.
        """
        if path is None:
            path = self.path_of(parent, name)
        if is_dir is None:
            is_dir = found is not None and stat.S_ISDIR(found.st_mode)
        whole = moves and is_dir
        if whole and len(path) > MAX_PATH_BYTES:
            # No glob is that long, and so no lease can be said to contain it.
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        place = self.ground.place(path, is_dir=is_dir)
        if whole and place is Place.SCRATCH and not self.ground.is_scratch_tree(path):
            place = _TREE
        return Name(self, parent, name, path, place, whole)

    def _all_is_leased(self) -> bool:
        # No name can be unleased then, so none has to be looked for: a file may have thousands.
        holdings = self.gate.holdings
        return holdings.view.covers_everything(holdings.now_s())

    def content_target(self, node: Node, found: os.stat_result) -> Sequence[Target]:
        """The file itself is about to change: under each of its names inside the tree.

        A file without a name is nobody else's business; its handles are checked by their tokens.
        """
        if node is self.inodes.root:
            return (Target(b"", _TREE, tracked=True),)
        if node.parent is not None:
            target: Target = self.target(node.parent, node.name, found)
        elif found.st_nlink and not node.is_dir:
            target = self._nameless_target(node)
        elif (place := self.lower.retries.place_of(node)) is not None:
            # Somebody took its name after it was looked up here; without a lease that opens nothing.
            target = self.target(*place, found)
        else:
            return ()
        if found.st_nlink == 1 or node.is_dir or self._all_is_leased():
            return (target,)
        others = [path for path in self._all_names(node) if path != target.path]
        target.aliases = tuple(
            path for path in others if self.ground.place(path, is_dir=False) is _TREE
        )
        return (target,)

    def _nameless_target(self, node: Node) -> Target:
        """A file that is open or held here and has names, none of which the kernel knows: judged where it is."""
        descriptors = [file.fd for file in self.handles.files_of(node)]
        if self.lower.retries.is_held(node):
            descriptors.append(self.lower.retries.fd_of(node))
        for fd in descriptors:
            path = self.lower.path_of(fd)
            if path is not None and not path.endswith(_DELETED):
                # Somebody else renamed it.
                return Target(path, self.ground.place(path, is_dir=False), tracked=True)
        # The name it was opened by was removed; others are left.
        for path in self._all_names(node):
            return Target(path, self.ground.place(path, is_dir=False), tracked=True)
        raise stale("the file was moved out of the tree")

    def _all_names(self, node: Node) -> Sequence[bytes]:
        return self.links.all_names(node, lambda: self.stat(node))

    # -- what follows a change -----------------------------------------------------------------

    def arrived(self, allowed: Allowed, target: Target, found: Stat) -> None:
        """Something was made at, or moved to, this name. Without a lease of its own it is a companion."""
        if allowed.by_name or target.place is not _TREE or target.whole_tree:
            return
        holdings = self.gate.holdings
        if holdings.view.writable(target.path, holdings.now_s()) is None:
            self.companions.made(target.path, self.inodes.key_of(found))

    def removed(self, parent: Node, name: bytes, node: Node | None) -> None:
        """What was there lost this name, by unlink or rmdir; the kernel knows it as this node, if at all."""
        if node is not None:
            self.inodes.lose_name(node, parent, name)
            self.replaced(node)
        self.outside.removed_here(parent, name)
        self.names_changed(parent)

    def replaced(self, node: Node) -> None:
        """The inode lost a name through this mount; a directory has no other."""
        node.told = None
        if node.is_dir:
            self.outside.unwatch(node)

    def made(self, directory: Node, name: bytes) -> None:
        """Something came to be at this name through this mount; the kernel is told of it."""
        self.outside.made_here(directory, name)
        self.names_changed(directory)

    def names_changed(self, directory: Node) -> None:
        """A name came or went in this directory, through this mount; the kernel knows that."""
        directory.told = None
        if directory.listing is not None:
            directory.listing.outdate()

    def changed(self, allowed: Allowed, *paths: bytes) -> None:
        """A change was made at these paths under this verdict."""
        if allowed.lease is not None:
            self.gate.holdings.wrote(allowed.lease.token)
        for path in paths:
            self.ground.changed(path)
            self.changes.changed(path)
            if self.redirects.active:
                self.redirects.changed(path)
            if self.readings is not None and self.readings.knows(path):
                self.readings.wrote(path, self._found_at(path))

    def _found_at(self, path: bytes) -> os.stat_result | None:
        try:
            return os.stat(path, dir_fd=self.lower.root_fd, follow_symlinks=False)
        except OSError:
            return None

    def wrote_own(self, node: Node, found: Stat) -> None:
        """The file was changed through this mount, and is like this now."""
        if self.readings is not None:
            for path in self.inodes.paths(node):
                self.readings.wrote(path, found)

    def was_changed(self, path: bytes, thread: int, found: os.stat_result | None) -> bool:
        """Whether others changed the file at `path`, which is like this now, since the thread read it."""
        if self.readings is None or not self.readings.is_stale(path, thread, found):
            return False
        node = None if found is None else self.inodes.find(found)
        # While it is open for writing, nobody else may write it.
        return node is None or not any(file.writes for file in self.handles.files_of(node))

    def note(self, file: OpenFile) -> None:
        """The first write through a handle in this epoch of the change log, before it is made.

        Raises:
            OSError: its intent cannot be written ahead (P8).
        """
        self.outside.changed_here(file.node)
        paths: Sequence[bytes] = self.inodes.paths(file.node)
        if file.aliased:
            try:
                paths = self._all_names(file.node)
            except (Wanting, OSError):
                self.changes.everything()
        for path in paths:
            self.changes.changed(path)
            if file.token > 0:
                self.gate.intend(path, "modify", file.pid)
        file.noted = self.changes.epoch
