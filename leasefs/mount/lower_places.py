"""Where the directories of the tree beneath lie: what the kernel says, compared with what it was told."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.inodes import Inodes, Node

# A name or a directory on the way to it is gone, or something else took its place.
NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


class Places:
    """Answers from /proc/self/fd: no lookup, no access (d_path)."""

    def __init__(
        self,
        root_fd: int,
        inodes: Inodes,
        directory: Callable[[Node], int],
        moved: Callable[[Node], bytes],
        *,
        most: int,
    ) -> None:
        """`root_fd` stays the caller's, and so do the descriptors that `directory` gives.

        `moved` says where a directory is that does not lie where it should, or raises. The last places of at most
        `most` directories are remembered.
        """
        self._root_fd = root_fd
        self._inodes = inodes
        self._directory = directory
        self._moved = moved
        self._most = most
        # Where /proc says what each of our descriptors leads to.
        self._links_fd = os.open(b"/proc/self/fd", STEP)
        self._above_all = self._text_of_root()
        # Where directories lay when that was asked last: what /proc said, `Inodes.moves`, and the path.
        self._lay_at: dict[Node, tuple[bytes, int, bytes]] = {}

    def close(self) -> None:
        """Ask no more."""
        os.close(self._links_fd)

    def forget(self, node: Node) -> None:
        """It is gone."""
        self._lay_at.pop(node, None)

    def path(self, directory: Node) -> bytes:
        """The path of a directory that lies where the kernel was told.

        The write check judges paths, while a descriptor follows its directory wherever it goes: a
        directory renamed through another mount must not be written under its old name.

        Raises:
            OSError: ESTALE if somebody moved it or one above; ENOENT if it has no name any more.
        """
        if directory is self._inodes.root:
            return b""
        try:
            here = os.readlink(b"%d" % self._directory(directory), dir_fd=self._links_fd)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return self._confirmed(directory, b"")
            self.require_name(directory)
            raise
        lay_at = self._lay_at.get(directory)
        if lay_at is not None and here == lay_at[0] and lay_at[1] == self._inodes.moves:
            return lay_at[2]
        return self._confirmed(directory, here)

    def _confirmed(self, directory: Node, here: bytes) -> bytes:
        path = self._inodes.path(directory)
        if path is None or not (
            self._lies_at(path, here) if here else self._is_reached_by_names(directory)
        ):
            return self._moved(directory)
        if here:
            if len(self._lay_at) >= self._most:
                self._lay_at.clear()
            self._lay_at[directory] = here, self._inodes.moves, path
        return path

    def require_name(self, directory: Node) -> bytes:
        """The path by which it is known. ENOENT if it has none any more."""
        path = self._inodes.path(directory)
        if path is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return path

    def _lies_at(self, path: bytes, here: bytes) -> bool:
        if here == self._above_all + path:
            return True
        self._above_all = self._text_of_root()
        return here == self._above_all + path

    def _is_reached_by_names(self, directory: Node) -> bool:
        """Whether each directory on the way down is the one that is known: for what d_path cannot say."""
        way: list[Node] = []
        while directory is not self._inodes.root:
            way.append(directory)
            if directory.parent is None:
                return False
            directory = directory.parent
        fd = os.dup(self._root_fd)
        try:
            for below in reversed(way):
                above, fd = fd, -1
                try:
                    fd = os.open(below.name, STEP, dir_fd=above)
                finally:
                    os.close(above)
                if not self._inodes.is_same(below, os.fstat(fd)):
                    return False
        except OSError as error:
            if error.errno in NOT_THERE:
                return False
            raise
        finally:
            if fd >= 0:
                os.close(fd)
        return True

    def path_of(self, fd: int) -> bytes | None:
        """Where in the tree the kernel says that an open file is; None if it lies outside."""
        root, here = self._text_of_root(), self._text_of(fd)
        return here[len(root) :] if here.startswith(root) else None

    def _text_of_root(self) -> bytes:
        return self._text_of(self._root_fd).rstrip(b"/") + b"/"

    def _text_of(self, fd: int) -> bytes:
        # The kernel's own idea of where an open directory is (d_path); no lookup, no access.
        return os.readlink(b"%d" % fd, dir_fd=self._links_fd)

    def name_of(self, fd: int) -> tuple[bytes, int]:
        """A name, and the directory that it is in, which lead to what a descriptor of ours is of, also O_PATH."""
        return b"%d" % fd, self._links_fd
