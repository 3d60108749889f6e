"""A kernel with less than this one, for one process: watches, instances, or what it can be told."""

from __future__ import annotations

import errno
import os

from leasefs.mount import watches
from leasefs.mount.inotify import CHANGES, Inotify
from leasefs.mount.notices import Notices


def allow_watches(left: str) -> None:
    """From now on that many directories can be watched; with "none" there is not even an instance."""

    class Few(Inotify):
        left = 0

        def __init__(self) -> None:
            if left == "none":
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            super().__init__()
            self.left = int(left)

        def watch(self, directory_fd: int, kinds: int = CHANGES) -> int:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().watch(directory_fd, kinds)

    vars(watches)["Inotify"] = Few


def be_older() -> None:
    """As before Linux 6.16: names can be taken back one by one only."""

    def all_entries(self: Notices) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    type.__setattr__(Notices, "all_entries", all_entries)
