"""`.leasefs/` at the root of the mount: what the mount knows, readable by any tool.

Virtual and read-only. It is found by name but not listed, so that `git status`, `ls -R` and build
tools do not stumble over it; a real `.leasefs` of the lower tree is hidden by it. Contents are made
when a file is opened, never cached by the kernel (direct I/O), so they are never stale.

`.leasefs/changes-TOKEN` is what git's hook reads (`leasefs.vcs.fsmonitor`): there is one for any TOKEN, and
nothing is kept for it, since the number of such a file says which token is meant.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from leasefs.mount.ground import CONTROL_NAME
from leasefs.mount.inodes import CONTROL_NUMBER, FIRST_SYNTHETIC

if TYPE_CHECKING:
    from leasefs.mount.changes import ChangeLog

Contents = Mapping[str, Callable[[], bytes]]

CHANGES_PREFIX = b"changes-"
# The file of the token with number N has this number + N; numbers of nodes never come so far.
_FIRST_CHANGES = CONTROL_NUMBER + (1 << 62)


@dataclass(frozen=True, slots=True)
class VirtualStat:
    """Attributes of something that is not on any disk."""

    st_mode: int
    st_ino: int
    st_uid: int
    st_gid: int
    st_nlink: int
    st_size: int
    st_mtime_ns: int
    st_dev: int = 0
    st_rdev: int = 0
    st_blksize: int = 4096

    @property
    def st_blocks(self) -> int:
        """Size in units of 512 bytes."""
        return (self.st_size + 511) // 512

    @property
    def st_atime_ns(self) -> int:
        """As the change time."""
        return self.st_mtime_ns

    @property
    def st_ctime_ns(self) -> int:
        """As the change time."""
        return self.st_mtime_ns


class ControlDir:
    """The control directory; numbers from `CONTROL_NUMBER` on."""

    name = CONTROL_NAME
    number = CONTROL_NUMBER

    def __init__(
        self,
        contents: Contents,
        uid: int,
        gid: int,
        changes: ChangeLog | None = None,
        settle: Callable[[], Awaitable[None]] | None = None,
        directories: Callable[[], list[bytes] | None] = lambda: None,
        before: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """What the directory holds.

        Args:
            contents: makes each file's bytes.
            uid: owner of the files, which all may read.
            gid: their group.
            changes: answers git's hook; without it there are no files for that.
            settle: waited for before each of these answers. After it the log must know, and the kernel
                must have dropped from its caches, whatever was done beneath the mount before the call.
            directories: finds all directories of the tree, in a thread.
            before: waited for before one of `contents` is read, with its name.
        """
        self._changes = changes
        self._settle = settle
        self._directories = directories
        self._before = before
        self._contents = {os.fsencode(name): make for name, make in sorted(contents.items())}
        self._numbers = {name: CONTROL_NUMBER + 1 + at for at, name in enumerate(self._contents)}
        self._names = {number: name for name, number in self._numbers.items()}
        self._uid, self._gid = uid, gid

    def owns(self, number: int) -> bool:
        """Whether the number is the directory's or one of its files'."""
        return CONTROL_NUMBER <= number < FIRST_SYNTHETIC or number >= _FIRST_CHANGES

    def files(self) -> list[tuple[bytes, int]]:
        """Names and numbers of the files; those for git's hook are not listed."""
        return list(self._numbers.items())

    def find(self, name: bytes) -> int:
        """The number of a file by name. ENOENT if there is none."""
        if self._changes is not None and name.startswith(CHANGES_PREFIX):
            return _FIRST_CHANGES + self._changes.number_of(name.removeprefix(CHANGES_PREFIX))
        number = self._numbers.get(name)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return number

    def stat(self, number: int) -> VirtualStat:
        """Attributes of the directory or of one of its files. ESTALE if it is neither."""
        is_dir = number == CONTROL_NUMBER
        # An answer to git ends an epoch, so none is made for a size; direct I/O reads past it.
        sizeless = is_dir or number >= _FIRST_CHANGES
        return VirtualStat(
            st_mode=stat.S_IFDIR | 0o555 if is_dir else stat.S_IFREG | 0o444,
            st_ino=number,
            st_uid=self._uid,
            st_gid=self._gid,
            st_nlink=2 if is_dir else 1,
            st_size=0 if sizeless else len(self.content(number)),
            st_mtime_ns=time.clock_gettime_ns(time.CLOCK_REALTIME),
        )

    async def read(self, number: int) -> bytes:
        """What a file says, once all that was done until now is known. EISDIR for the directory."""
        if number < _FIRST_CHANGES or self._changes is None:
            if self._before is not None and number in self._names:
                await self._before(os.fsdecode(self._names[number]))
            return self.content(number)
        number -= _FIRST_CHANGES
        directories = None
        if self._changes.is_weak(number):
            directories = await trio.to_thread.run_sync(self._directories)
        if self._settle is not None:
            await self._settle()
        return self._changes.answer(number, directories)

    def content(self, number: int) -> bytes:
        """What a file says at once; those for git's hook are for `read`. EISDIR for the directory."""
        if number == CONTROL_NUMBER:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        name = self._names.get(number)
        if name is None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return self._contents[name]()
