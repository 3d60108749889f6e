"""inotify(7) as it answers where a user's watches or instances run out, for one process."""

from __future__ import annotations

import errno
import os

from leasefs.mount import outside
from leasefs.mount.inotify import Inotify


def allow_watches(left: str) -> None:
    """From now on that many directories can be watched; with "none" there is not even an instance."""

    class Few(Inotify):
        left = 0

        def __init__(self) -> None:
            if left == "none":
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            super().__init__()
            self.left = int(left)

        def watch(self, directory_fd: int) -> int:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().watch(directory_fd)

    vars(outside)["Inotify"] = Few
