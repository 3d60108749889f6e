"""The files that daemons write their messages to where no journal takes them: private, and not growing for ever."""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO

MOST_BYTES = 8 << 20
"""One that is larger when a daemon begins makes room for a new one; the former is kept beside it, the one before that goes."""
FORMER = ".1"
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def opened_log(path: str) -> BinaryIO:
    """The file at `path`, to be appended to by a daemon that begins. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        if os.lstat(path).st_size > MOST_BYTES:
            os.replace(path, path + FORMER)
    fd = os.open(path, _FLAGS, 0o600)
    os.fchmod(fd, 0o600)
    return open(fd, "ab")
