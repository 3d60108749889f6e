"""Files of a working tree as git sees them: kind, mode, and the id of their content. No link is followed on the way."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Self

from leasefs.vcs.beneath import open_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from leasefs.vcs.conversion import Conversion
    from leasefs.vcs.objects import Entry

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
# What says that nothing is at a path, a symbolic link above it included.
_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
# A longer file is not converted here; if git converts it, git's last judgement is what is known of it.
_CONVERTED_LIMIT_BYTES = 1 << 26


class Kind(Enum):
    """What lies at a path of the working tree, as far as git tells things apart."""

    ABSENT = "absent"  # also a FIFO, a socket, a device: git does not see them
    FILE = "file"
    SYMLINK = "symlink"
    DIRECTORY = "directory"


class TreeFile:
    """An open regular file, with the stat data it had when it was opened. Its methods raise OSError if it cannot be read."""

    def __init__(self, fd: int, status: os.stat_result) -> None:
        self.fd = fd
        self.size = status.st_size
        self._status = status

    def blob(self, id_digits: int) -> str:
        """The id of a blob with this content; "" if the file was changed meanwhile."""
        digest = _hash(id_digits, self.size)
        os.lseek(self.fd, 0, os.SEEK_SET)
        while chunk := os.read(self.fd, _CHUNK_BYTES):
            digest.update(chunk)
        return digest.hexdigest() if self.is_unchanged() else ""

    def converts_to(self, blob: str, conversion: Conversion) -> bool:
        """Whether git would store this file as `blob`; False too if that is not known here."""
        if self.size > _CONVERTED_LIMIT_BYTES:
            return False
        os.lseek(self.fd, 0, os.SEEK_SET)
        content = bytearray()
        while chunk := os.read(self.fd, _CHUNK_BYTES):
            content += chunk
        try:
            converted = conversion.to_git(bytes(content))
        except ValueError:
            return False
        digest = _hash(len(blob), len(converted))
        digest.update(converted)
        return digest.hexdigest() == blob and self.is_unchanged()

    def is_unchanged(self) -> bool:
        """Whether nothing has touched it since it was opened."""
        now, then = os.fstat(self.fd), self._status
        return (now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (
            then.st_size,
            then.st_mtime_ns,
            then.st_ctime_ns,
        )


@contextmanager
def open_file(root_fd: int, path: bytes) -> Iterator[TreeFile | None]:
    """The regular file at `path`; None if there is none, or it may not be read."""
    parent, _, name = path.rpartition(b"/")
    try:
        parent_fd = open_directory(root_fd, parent)
        try:
            fd = os.open(name, _OPEN, dir_fd=parent_fd)
        finally:
            os.close(parent_fd)
    except OSError:
        yield None
        return
    try:
        status = os.fstat(fd)
        yield TreeFile(fd, status) if stat.S_ISREG(status.st_mode) else None
    finally:
        os.close(fd)


class Looker:
    """Stat data of many paths of a tree; a context manager. Names of one directory in a row open it once."""

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._parent = b""
        self._parent_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def look(self, path: bytes) -> os.stat_result | None:
        """The stat data of `path`, reached through no symbolic link; None if nothing is there."""
        parent, _, name = path.rpartition(b"/")
        try:
            if self._parent_fd < 0 or parent != self._parent:
                self._leave()
                self._parent_fd, self._parent = open_directory(self._root_fd, parent), parent
            return os.stat(name, dir_fd=self._parent_fd, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NOTHING:
                return None
            raise

    def _leave(self) -> None:
        if self._parent_fd >= 0:
            os.close(self._parent_fd)
        self._parent_fd = -1


def kind_of(status: os.stat_result | None) -> Kind:
    """What git takes it for."""
    if status is None:
        return Kind.ABSENT
    kinds = {stat.S_IFREG: Kind.FILE, stat.S_IFLNK: Kind.SYMLINK, stat.S_IFDIR: Kind.DIRECTORY}
    return kinds.get(stat.S_IFMT(status.st_mode), Kind.ABSENT)


def is_link_to(root_fd: int, path: bytes, blob: str) -> bool:
    """Whether the symbolic link at `path` has the text that `blob` holds."""
    parent, _, name = path.rpartition(b"/")
    try:
        parent_fd = open_directory(root_fd, parent)
    except OSError:
        return False
    try:
        text = os.readlink(name, dir_fd=parent_fd)
    except OSError:
        return False
    finally:
        os.close(parent_fd)
    digest = _hash(len(blob), len(text))
    digest.update(text)
    return digest.hexdigest() == blob


def is_executable(status: os.stat_result) -> bool:
    """What git keeps of a file's mode."""
    return bool(status.st_mode & stat.S_IXUSR)


def wants_executable(entry: Entry) -> bool:
    """Whether a commit has a regular file as executable."""
    return bool(entry.mode & stat.S_IXUSR)


def _hash(id_digits: int, size: int) -> hashlib._Hash:
    """Begun as git begins the id of a blob; the length of an id tells the algorithm."""
    algorithm = hashlib.sha1 if id_digits == 40 else hashlib.sha256
    return algorithm(b"blob %d\0" % size, usedforsecurity=False)
