"""The calls that put a rescue's paths into a tree, in an order in which none stands in another's way.

A file is written beside its place under a name that mounts take for an atomic save's (Python's tempfile), and renamed:
whoever reads it sees the old or the new one, and a full disk leaves the old.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from leasefs.core.paths import ancestors
from leasefs.vcs.beneath import open_directory
from leasefs.vcs.objects import TREE, Objects
from leasefs.vcs.rescue_files import look, opened_parent
from leasefs.vcs.rescue_record import Kind
from leasefs.vcs.rescue_store import blob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from leasefs.vcs.gitdir import GitDir
    from leasefs.vcs.rescue_record import KeptPath

_SMALL_BYTES = 1 << 20
_BATCH = 100
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STAYS = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR})


class Writer:
    """Writes below `root_fd` what `repository` holds. `at` is the path it is busy with, `done` counts its steps."""

    def __init__(self, repository: GitDir, root_fd: int) -> None:
        self._repository = repository.of_clone()
        self._owner = os.fstat(repository.common_fd)
        self._root_fd = root_fd
        self.at = b""
        self.done = 0

    def write(self, entries: Sequence[KeptPath]) -> None:
        """Bring all `entries` about; OSError at the first that fails, GitFailed if its content is missing."""
        downwards = sorted(entries, key=lambda entry: entry.path)
        upwards = downwards[::-1]
        contents = [entry for entry in downwards if entry.kind in (Kind.FILE, Kind.SYMLINK)]
        self._each(self._remove, upwards, Kind.ABSENT)
        self._each(self._make_directory, downwards, Kind.DIRECTORY)
        self._each(self._clear, contents)
        self._each(self._write_streamed, (e for e in contents if e.size > _SMALL_BYTES))
        small = [entry for entry in contents if entry.size <= _SMALL_BYTES]
        for at in range(0, len(small), _BATCH):
            # One git for many of them; it has a time limit, so a long list takes several.
            with Objects(self._repository, self._owner) as self._objects:
                self._each(self._write_small, small[at : at + _BATCH])
        # Last: a directory may not be writable, and lies below others that may not be searched.
        self._each(self._set_mode, upwards, Kind.DIRECTORY)

    def _each(
        self, act: Callable[[KeptPath], None], entries: Iterable[KeptPath], *kinds: Kind
    ) -> None:
        for entry in entries:
            if not kinds or entry.kind in kinds:
                self.at = entry.path
                act(entry)
                self.done += 1

    def _remove(self, entry: KeptPath) -> None:
        status = look(self._root_fd, entry.path)
        if status is not None and entry.base_mode == TREE:
            self._remove_if_empty(entry.path)
        elif status is not None and not stat.S_ISDIR(status.st_mode):
            with opened_parent(self._root_fd, entry.path) as (parent_fd, name):
                os.unlink(name, dir_fd=parent_fd)
        for above in ancestors(entry.path) if entry.gone else ():
            if len(above) >= len(entry.gone):
                self._remove_if_empty(above)

    def _remove_if_empty(self, path: bytes) -> None:
        try:
            with opened_parent(self._root_fd, path) as (parent_fd, name):
                os.rmdir(name, dir_fd=parent_fd)
        except OSError as error:
            if error.errno not in _STAYS:
                raise

    def _clear(self, entry: KeptPath) -> None:
        """Take away a directory that is in the place of a file. By now it holds directories alone."""
        status = look(self._root_fd, entry.path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            for directory in reversed(list(directories_from(self._root_fd, entry.path))):
                with opened_parent(self._root_fd, directory) as (parent_fd, name):
                    os.rmdir(name, dir_fd=parent_fd)

    def _make_directory(self, entry: KeptPath) -> None:
        status = look(self._root_fd, entry.path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            return
        with self._parent(entry.path) as (parent_fd, name):
            if status is not None:
                os.unlink(name, dir_fd=parent_fd)
            os.mkdir(name, dir_fd=parent_fd)

    def _set_mode(self, entry: KeptPath) -> None:
        directory_fd = open_directory(self._root_fd, entry.path)
        try:
            # The descriptor is O_PATH, which fchmod(2) does not take.
            os.chmod(f"/proc/self/fd/{directory_fd}", entry.permissions)
        finally:
            os.close(directory_fd)

    def _write_streamed(self, entry: KeptPath) -> None:
        self._write(entry, blob(self._repository, entry.blob))

    def _write_small(self, entry: KeptPath) -> None:
        self._write(entry, [self._objects.content(entry.blob)])

    def _write(self, entry: KeptPath, content: Iterable[bytes]) -> None:
        with self._parent(entry.path) as (parent_fd, name), _beside(parent_fd, name) as other:
            if entry.kind is Kind.SYMLINK:
                os.symlink(b"".join(content), other, dir_fd=parent_fd)
                return
            with open(os.open(other, _NEW, 0o600, dir_fd=parent_fd), "wb") as file:
                file.writelines(content)
                file.flush()
                os.fchmod(file.fileno(), entry.permissions)

    @contextmanager
    def _parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """As `opened_parent`, with the directories above made."""
        for above in sorted(ancestors(path), key=len):
            if above and look(self._root_fd, above) is None:
                with opened_parent(self._root_fd, above) as (parent_fd, name):
                    os.mkdir(name, dir_fd=parent_fd)
        with opened_parent(self._root_fd, path) as opened:
            yield opened


def directories_from(root_fd: int, path: bytes) -> Iterator[bytes]:
    """`path` and all directories below it, each after the one it lies in."""
    yield path
    for name, is_directory in _listed(root_fd, path):
        if is_directory:
            yield from directories_from(root_fd, name)


def files_below(root_fd: int, path: bytes) -> Iterator[bytes]:
    """What lies below directory `path` and is no directory."""
    for name, is_directory in _listed(root_fd, path):
        if is_directory:
            yield from files_below(root_fd, name)
        else:
            yield name


def _listed(root_fd: int, path: bytes) -> list[tuple[bytes, bool]]:
    parent_fd = open_directory(root_fd, path)
    try:
        directory_fd = os.open(b".", _LIST, dir_fd=parent_fd)
    finally:
        os.close(parent_fd)
    try:
        with os.scandir(directory_fd) as found:
            return [
                (path + b"/" + os.fsencode(entry.name), entry.is_dir(follow_symlinks=False))
                for entry in found
            ]
    finally:
        os.close(directory_fd)


@contextmanager
def _beside(parent_fd: int, name: bytes) -> Iterator[bytes]:
    """A name in the same directory for what is to take the place of `name`."""
    other = b"tmp" + os.urandom(4).hex().encode()
    try:
        yield other
        os.rename(other, name, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(other, dir_fd=parent_fd)
        raise
