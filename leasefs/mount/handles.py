"""What is open: files, directory streams and virtual files, each under its own handle.

Every open has a descriptor of its own with the access it asked for. Sharing one per inode would give
EBADF to whoever asked for more than the first opener, and append flags to those who did not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.mount.inodes import Node
    from leasefs.mount.listing import Listing


@dataclass(slots=True, eq=False)
class OpenFile:
    """One open file. `token` is that of the lease it may be written under; 0 needs none."""

    fd: int
    node: Node
    flags: int
    path: bytes = b""
    pid: int = 0
    token: int = 0
    use_id: int = 0
    # The file moved; the lease it is written under has to be found anew.
    unsure: bool = False
    # Where the kernel says the file is. Watched on handles that need no lease: a file that somebody
    # moves out of scratch must not be written any more.
    text: str = ""
    ground_seen_s: float = 0.0
    # Other names of the inode have to be leased too: each write is checked in full.
    aliased: bool = False
    # Its writes take set-id bits away: the writer is an ordinary user, whom the daemon, being root, is not.
    disarms: bool = False
    # The epoch of the change log in which a write was last noted.
    noted: int = 0

    @property
    def writes(self) -> bool:
        """Whether it was opened for writing."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY

    @property
    def appends_only(self) -> bool:
        """Opened O_WRONLY|O_APPEND: no mapping can write through it, so each write is an append."""
        return self.flags & (os.O_ACCMODE | os.O_APPEND) == os.O_WRONLY | os.O_APPEND


@dataclass(slots=True, eq=False)
class OpenDirectory:
    """A directory stream: one list of names, so that positions survive any create or unlink."""

    fd: int
    node: Node
    listing: Listing | None = None


@dataclass(slots=True, eq=False)
class OpenVirtual:
    """A control file as it was at open, or the control directory's names."""

    content: bytes = b""
    names: list[bytes] = field(default_factory=list)


Handle = OpenFile | OpenDirectory | OpenVirtual
_H = TypeVar("_H", OpenFile, OpenDirectory)


class Handles:
    """Open handles by number; numbers are never used twice."""

    def __init__(self) -> None:
        self._handles: dict[int, Handle] = {}
        self._files: dict[Node, list[OpenFile]] = {}
        self._streams: dict[Node, list[OpenDirectory]] = {}
        self._writers: dict[OpenFile, None] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._handles)

    def add(self, handle: Handle) -> int:
        """Keep a handle; returns its number."""
        number = self._next
        self._next += 1
        self._handles[number] = handle
        if isinstance(handle, OpenFile):
            same = self._files.get(handle.node)
            if same is None:
                self._files[handle.node] = [handle]
            else:
                same.append(handle)
            if handle.flags & os.O_ACCMODE:
                self._writers[handle] = None
        elif isinstance(handle, OpenDirectory):
            self._streams.setdefault(handle.node, []).append(handle)
        return number

    def get(self, number: int) -> Handle:
        """The handle. KeyError if the kernel names one that it was never given."""
        return self._handles[number]

    def file(self, number: int) -> OpenFile:
        """The handle of a real file. OSError EBADF if it is something else."""
        handle = self._handles[number]
        if not isinstance(handle, OpenFile):
            raise OSError(9, os.strerror(9))
        return handle

    def pop(self, number: int) -> Handle:
        """Forget a handle and close its descriptor."""
        handle = self._handles.pop(number)
        if isinstance(handle, OpenFile):
            if handle.flags & os.O_ACCMODE:
                del self._writers[handle]
            _take_out(self._files, handle)
        elif isinstance(handle, OpenDirectory):
            _take_out(self._streams, handle)
        if not isinstance(handle, OpenVirtual):
            os.close(handle.fd)
        return handle

    def files_of(self, node: Node) -> Iterable[OpenFile]:
        """The open files of one inode."""
        return self._files.get(node, ())

    def descriptors_of(self, node: Node) -> list[int]:
        """Descriptors of what is open of one inode, files or directory streams; borrowed."""
        opened = (*self._files.get(node, ()), *self._streams.get(node, ()))
        return [handle.fd for handle in opened]

    def files(self) -> list[OpenFile]:
        """All open files."""
        return [file for files in self._files.values() for file in files]

    def is_open(self, node: Node) -> bool:
        """Whether the inode is open, and so not gone."""
        return node in self._files

    def writers(self) -> list[OpenFile]:
        """All files that are open for writing."""
        return list(self._writers)

    def close_all(self) -> list[OpenFile]:
        """Close everything, at the end of the mount; returns the files that were open."""
        files = [handle for handle in self._handles.values() if isinstance(handle, OpenFile)]
        for number in list(self._handles):
            self.pop(number)
        return files


def _take_out(opened: dict[Node, list[_H]], handle: _H) -> None:
    same = opened[handle.node]
    if len(same) == 1:
        del opened[handle.node]
    else:
        same.remove(handle)
