"""The real tree, reached only through a descriptor of its root that was opened before mounting.

Every call names one component below a directory descriptor and never follows a symlink, so nothing
that is swapped in from outside can lead out of the tree. After mounting in place this descriptor is
the only way to the tree beneath.

Directory descriptors are O_PATH, cached, and opened anew through their parents when they were pushed
out. Whatever is reached by name is compared with the inode that was meant: another one there is ESTALE,
which makes the kernel look the name up again (path_lookup in open(2), fs/namei.c). It does so once; what it
finds then is held for it (`retries.py`).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasefs.mount.lower_places import NOT_THERE, Places
from leasefs.mount.retries import Retries
from leasefs.vcs.beneath import STEP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.inodes import Inodes, Node

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

_PIN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a FIFO that was swapped in must not stop the daemon; no effect on files.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

NO_MORE = frozenset({errno.EMFILE, errno.ENFILE})

_libc = ctypes.CDLL(None, use_errno=True)


def stale(what: str) -> OSError:
    """The error that makes the kernel look a name up again."""
    return OSError(errno.ESTALE, what)


def reopen(fd: int, flags: int) -> int:
    """Open what a descriptor of ours leads to once more, with these flags."""
    return os.open(f"/proc/self/fd/{fd}", flags & ~os.O_NOFOLLOW | os.O_CLOEXEC)


class Lower:
    """System calls on the tree below, by node. Raises OSError only."""

    def __init__(
        self, root_fd: int, inodes: Inodes, *, directories: int, handles_below: int = 1 << 31
    ) -> None:
        """`root_fd` stays the caller's; at most `directories` descriptors are kept beside it.

        What callers have open gets descriptors below `handles_below` only, so that there are some left
        for everything else: looking, removing, closing, heartbeats.
        """
        self.root_fd = root_fd
        self.retries = Retries(most=max(16, min(256, directories // 4)))
        self._inodes = inodes
        self._limit = directories
        self._handles_below = handles_below
        self._directories: OrderedDict[Node, int] = OrderedDict()
        # The newest of them: the same operation mostly asks for it again.
        self._last: Node | None = None
        self._last_fd = -1
        self._places = Places(root_fd, inodes, self.directory, self._moved, most=directories)
        # Without a frame in between: each request asks.
        self.path = self._places.path
        self.path_of = self._places.path_of
        self.name_of = self._places.name_of

    # -- directories ---------------------------------------------------------------------------

    def directory(self, node: Node) -> int:
        """An O_PATH descriptor of a directory. Borrowed: never closed by the caller, nor kept."""
        if node is self._last:
            return self._last_fd
        fd = self._directories.get(node)
        if fd is None:
            fd = self._known(node)
            return self._open_directory(node) if fd is None else fd
        self._directories.move_to_end(node)
        self._last, self._last_fd = node, fd
        return fd

    def _known(self, node: Node) -> int | None:
        if node is self._inodes.root:
            return self.root_fd
        if node.orphan_fd >= 0:
            return node.orphan_fd
        fd = self._directories.get(node)
        if fd is None and self.retries.is_held(node):
            return self.retries.fd_of(node)
        return fd

    def _open_directory(self, node: Node) -> int:
        chain = [node]
        while True:
            above = chain[-1].parent
            if above is None:
                raise stale("directory without a name")
            fd = self._known(above)
            if fd is not None:
                break
            chain.append(above)
        for below in reversed(chain):
            fd = self._open_below(below.name, fd)
            self._keep(below, fd)
        return fd

    def _open_below(self, name: bytes, above_fd: int) -> int:
        while True:
            try:
                return os.open(name, STEP, dir_fd=above_fd)
            except OSError as error:
                # One of them may be `above_fd`.
                if error.errno not in NO_MORE or len(self._directories) < 2:
                    raise
                self._let_oldest_go(above_fd)

    def _let_oldest_go(self, but_fd: int) -> None:
        """Close the descriptor that was asked for longest ago, other than this one."""
        oldest = next(node for node, fd in self._directories.items() if fd != but_fd)
        self._let_go(oldest)

    def _let_go(self, directory: Node) -> None:
        if directory is self._last:
            self._last = None
        fd = self._directories.pop(directory, -1)
        if fd >= 0:
            os.close(fd)

    def _keep(self, node: Node, fd: int) -> None:
        if not self._inodes.is_same(node, os.fstat(fd)):
            os.close(fd)
            raise stale("another directory took the name")
        self._directories[node] = fd
        self._last, self._last_fd = node, fd
        if len(self._directories) > self._limit:
            self._let_oldest_go(fd)

    def keeps_removed(self, directory: Node) -> bool:
        """Whether a descriptor kept here is all that a removed directory still exists for."""
        fd = self._directories.get(directory, self.retries.fd_of(directory))
        return fd >= 0 and not os.fstat(fd).st_nlink

    def forget(self, node: Node) -> None:
        """Close what is held open for a node that is gone."""
        self._places.forget(node)
        if self.retries.held:
            self.retries.forget(node)
        if node in self._directories:
            self._let_go(node)
        if node.orphan_fd >= 0:
            os.close(node.orphan_fd)
            node.orphan_fd = -1

    def close(self) -> None:
        """Close all descriptors but the root's."""
        self.close_directories()
        self.retries.close()
        self._places.close()

    def close_directories(self) -> None:
        """Close those of directories; they are opened anew when needed."""
        for directory in list(self._directories):
            self._let_go(directory)

    def _moved(self, directory: Node) -> bytes:
        """The path of a directory that somebody moved: for who found it in a second try, where it is now."""
        fd = self.retries.fd_of(directory)
        if fd >= 0 and os.fstat(fd).st_nlink and (path := self.path_of(fd)) is not None:
            return path
        self._places.require_name(directory)
        self._drop_chain(directory)
        raise stale("directory was moved")

    def _drop_chain(self, directory: Node) -> None:
        above: Node | None = directory
        while above is not None and above is not self._inodes.root:
            self._let_go(above)
            above = above.parent

    # -- one inode -----------------------------------------------------------------------------

    def lstat(self, parent: Node, name: bytes) -> os.stat_result:
        """What is at this name. ENOENT if nothing."""
        return os.stat(name, dir_fd=self.directory(parent), follow_symlinks=False)

    def stat(self, node: Node) -> os.stat_result:
        """The node's attributes. ESTALE if none of its names leads to it any more."""
        if node is self._inodes.root:
            return os.fstat(self.root_fd)
        if node.orphan_fd >= 0:
            return os.fstat(node.orphan_fd)
        while node.parent is not None:
            found = self._found_by_name(node, node.parent)
            if found is not None:
                return found
            self._inodes.lose_name(node, node.parent, node.name)
        if self.retries.is_held(node):
            return os.fstat(self.retries.fd_of(node))
        raise stale("no name leads to the inode")

    def _found_by_name(self, node: Node, parent: Node) -> os.stat_result | None:
        """What its first name leads to, or None if that is not the node."""
        try:
            found = os.stat(node.name, dir_fd=self.directory(parent), follow_symlinks=False)
        except OSError as error:
            if error.errno in NOT_THERE:
                return None
            raise
        return found if self._inodes.is_same(node, found) else None

    def hold(self, parent: Node, name: bytes, thread: int) -> os.stat_result | None:
        """Look up what is at a name, for a thread that tries again, and hold it until the thread has it."""
        try:
            fd = os.open(name, _PIN, dir_fd=self.directory(parent))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in NO_MORE:
                raise
            return self.lstat(parent, name)
        found = os.fstat(fd)
        self.retries.hold(thread, self._inodes.learn(parent, name, found), fd, (parent, name))
        return found

    def open(self, node: Node, flags: int, thread: int) -> tuple[int, os.stat_result]:
        """Open a regular file for a thread. The descriptor is the caller's; its attributes come along.

        Raises:
            OSError: ESTALE if the name leads elsewhere, ENFILE if too many are open.
        """
        flags |= _FILE
        if node.orphan_fd >= 0:
            fd = reopen(node.orphan_fd, flags)
            return self.for_a_handle(fd), os.fstat(fd)
        try:
            fd, found = self._open_by_name(node, flags)
        except OSError as error:
            if error.errno != errno.ESTALE or not self.retries.found_by(thread, node):
                raise
            fd = reopen(self.retries.fd_of(node), flags)
            found = os.fstat(fd)
        return fd if fd < self._handles_below else self.for_a_handle(fd), found

    def for_a_handle(self, fd: int) -> int:
        """Pass on a descriptor that a caller is to hold; closes it and raises ENFILE if it is one too many."""
        if fd >= self._handles_below:
            os.close(fd)
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
        return fd

    def _open_by_name(self, node: Node, flags: int) -> tuple[int, os.stat_result]:
        while (parent := node.parent) is not None:
            try:
                fd = os.open(node.name, flags, dir_fd=self.directory(parent))
            except OSError:
                # Whatever it says is about the node only if that is still there.
                if self._found_by_name(node, parent) is not None:
                    raise
            else:
                found = os.fstat(fd)
                if self._inodes.is_same(node, found):
                    return fd, found
                os.close(fd)
            self._inodes.lose_name(node, parent, node.name)
        raise stale("no name leads to the inode")

    @contextmanager
    def pinned(self, node: Node) -> Iterator[str]:
        """A path that means this very inode, a symlink itself included, while the block runs."""
        if node.is_dir:
            yield f"/proc/self/fd/{self.directory(node)}"
            return
        fd = self.pin(node)[0]
        try:
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)

    def pin(self, node: Node) -> tuple[int, os.stat_result]:
        """An O_PATH descriptor of the node, owned by the caller, and its attributes."""
        fd = node.orphan_fd
        if fd < 0:
            try:
                return self._open_by_name(node, _PIN)
            except OSError as error:
                fd = self.retries.fd_of(node)
                if error.errno != errno.ESTALE or fd < 0:
                    raise
        fd = os.dup(fd)
        return fd, os.fstat(fd)

    def readlink(self, node: Node) -> bytes:
        """The text of a symlink."""
        fd = self.pin(node)[0]
        try:
            return os.readlink(b"", dir_fd=fd)
        finally:
            os.close(fd)

    def open_listing(self, node: Node) -> int:
        """Open a directory for listing. The descriptor is the caller's."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        return self.for_a_handle(os.open(b".", flags, dir_fd=self.directory(node)))

    @staticmethod
    def names(fd: int) -> list[bytes]:
        """All names in an open directory, in its own order."""
        return [os.fsencode(name) for name in os.listdir(fd)]

    # -- names ---------------------------------------------------------------------------------

    def rename(self, old: Node, old_name: bytes, new: Node, new_name: bytes, flags: int) -> None:
        """renameat2(2). EINVAL where the file system does not know the flags."""
        old_fd, new_fd = self.directory(old), self.directory(new)
        if not flags:
            os.rename(old_name, new_name, src_dir_fd=old_fd, dst_dir_fd=new_fd)
        elif _libc.renameat2(old_fd, old_name, new_fd, new_name, flags):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
