"""`.leasefs/` at the root of the mount: what the mount knows, readable by any tool.

Virtual and read-only. It is found by name but not listed, so that `git status`, `ls -R` and build
tools do not stumble over it; a real `.leasefs` of the lower tree is hidden by it. Contents are made
when a file is opened, never cached by the kernel (direct I/O), so they are never stale.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from leasefs.mount.ground import CONTROL_NAME
from leasefs.mount.inodes import CONTROL_NUMBER, FIRST_SYNTHETIC

Contents = Mapping[str, Callable[[], bytes]]


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

    def __init__(self, contents: Contents, uid: int, gid: int) -> None:
        """`contents` makes each file's bytes; `uid` and `gid` own the files, readable by all."""
        self._contents = {os.fsencode(name): make for name, make in sorted(contents.items())}
        self._numbers = {name: CONTROL_NUMBER + 1 + at for at, name in enumerate(self._contents)}
        self._names = {number: name for name, number in self._numbers.items()}
        self._uid, self._gid = uid, gid

    def owns(self, number: int) -> bool:
        """Whether the number is the directory's or one of its files'."""
        return CONTROL_NUMBER <= number < FIRST_SYNTHETIC

    def files(self) -> list[tuple[bytes, int]]:
        """Names and numbers of the files."""
        return list(self._numbers.items())

    def find(self, name: bytes) -> int:
        """The number of a file by name. ENOENT if there is none."""
        number = self._numbers.get(name)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return number

    def stat(self, number: int) -> VirtualStat:
        """Attributes of the directory or of one of its files. ESTALE if it is neither."""
        is_dir = number == CONTROL_NUMBER
        return VirtualStat(
            st_mode=stat.S_IFDIR | 0o555 if is_dir else stat.S_IFREG | 0o444,
            st_ino=number,
            st_uid=self._uid,
            st_gid=self._gid,
            st_nlink=2 if is_dir else 1,
            st_size=0 if is_dir else len(self.content(number)),
            st_mtime_ns=time.clock_gettime_ns(time.CLOCK_REALTIME),
        )

    def content(self, number: int) -> bytes:
        """What a file says now. EISDIR for the directory."""
        if number == CONTROL_NUMBER:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        name = self._names.get(number)
        if name is None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return self._contents[name]()
