"""The socket and the directories of a server: whoever could write there could be the ledger, so nobody else may."""

from __future__ import annotations

import os
import socket
import stat

SOCKET_PATH_LIMIT_BYTES = 107  # unix(7): sun_path has 108, the last is NUL


class UnsafePlace(Exception):
    """A path where no ledger may live; the message says what to do."""


class Unservable(UnsafePlace):
    """What was said about how to serve cannot be done; to try again mends nothing, so a service ends for good."""


class AddressTaken(UnsafePlace):
    """An address that cannot be had now: somebody else has it, or this machine does not have it."""


def private_directory(path: str) -> None:
    """Make sure of a directory that is ours alone (0700), making it if there is none.

    Raises:
        UnsafePlace: somebody else's, a symlink, no directory, or open to others.
        OSError: it cannot be made.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafePlace(
            f"{path} is not a directory (symlinks do not count): choose another place"
        )
    if found.st_uid != os.geteuid():
        raise UnsafePlace(f"{path} belongs to uid {found.st_uid}, not to you: choose another place")
    if found.st_mode & 0o077:
        raise UnsafePlace(
            f"{path} is open to other users: chmod 700 {path}, or choose another place"
        )


def listening_socket(path: str) -> socket.socket:
    """A socket at `path`, 0600, listening. A stale one there is removed, so hold the lock on it.

    Raises:
        UnsafePlace: the directory is not ours alone, something else is there, or the path is too long.
        OSError: it cannot be bound.
    """
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT_BYTES:
        raise UnsafePlace(
            f"{path} is longer than the {SOCKET_PATH_LIMIT_BYTES} bytes that a socket's path may have"
        )
    private_directory(os.path.dirname(os.path.abspath(path)))
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    old_umask = os.umask(0o177)
    try:
        listening.bind(path)
        listening.listen(4096)
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(old_umask)
    return listening


def _remove_stale(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise UnsafePlace(f"{path} exists and is no socket: choose another place")
    os.unlink(path)
