"""Open and read files below a directory descriptor, following no symbolic link on the way.

Once a mount covers the tree, a descriptor opened before is the only way to it, and a link inside the tree could lead
out of it or back into the mount (openat(2), O_NOFOLLOW).
"""

from __future__ import annotations

import os
import stat

# For one component below a directory; what a symbolic link leads to is not reached.
STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO that a repository put in our way would wait for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotRegular(OSError):
    """The name is there, but is not a regular file (for a symbolic link: ELOOP, not this)."""


class TooLarge(OSError):
    """The file has more bytes than the caller is ready to read."""


def open_directory(root_fd: int, path: bytes) -> int:
    """Open directory `path` (relative, b"" is the root itself) for `*at()` calls; the caller closes it.

    Raises:
        OSError: ELOOP or ENOTDIR at a symbolic link, ENOENT, EACCES.
    """
    current_fd = os.open(b".", STEP, dir_fd=root_fd)
    for component in filter(None, path.split(b"/")):
        try:
            next_fd = os.open(component, STEP, dir_fd=current_fd)
        finally:
            os.close(current_fd)
        current_fd = next_fd
    return current_fd


def read_file(directory_fd: int, path: bytes, limit_bytes: int) -> bytes:
    """Read the regular file `path` below `directory_fd`, at most `limit_bytes`.

    Raises:
        NotRegular: it is a directory, a device, a FIFO or a socket.
        TooLarge: it is longer than `limit_bytes`.
        OSError: ELOOP at a symbolic link, ENOENT, EACCES and the like.
    """
    parent, _, name = path.rpartition(b"/")
    parent_fd = open_directory(directory_fd, parent)
    try:
        file_fd = os.open(name, _READ, dir_fd=parent_fd)
    finally:
        os.close(parent_fd)
    return read_descriptor(file_fd, limit_bytes)


def read_descriptor(file_fd: int, limit_bytes: int) -> bytes:
    """Read all of `file_fd` and close it.

    Raises:
        NotRegular: as for `read_file`.
        TooLarge: as for `read_file`.
    """
    try:
        # io.open() would raise of itself at a directory, and leave the descriptor open.
        if not stat.S_ISREG(os.fstat(file_fd).st_mode):
            raise NotRegular("not a regular file")
        chunks, left = [], limit_bytes + 1
        while left and (chunk := os.read(file_fd, left)):
            chunks.append(chunk)
            left -= len(chunk)
    finally:
        os.close(file_fd)
    if not left:
        raise TooLarge(f"longer than {limit_bytes} bytes")
    return b"".join(chunks)
