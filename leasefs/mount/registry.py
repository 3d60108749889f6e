"""Where a mount can be found: its control socket, and its entry among this user's live mounts."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any

from leasefs.client import paths
from leasefs.client.address import parse_url
from leasefs.client.find import registered_mounts
from leasefs.client.whole_file import write_whole
from leasefs.core.errors import Denied

if TYPE_CHECKING:
    from collections.abc import Iterator

# For a tree of another user than the daemon's (root), who could not enter root's own directories.
SHARED_DIR = "/run/leasefs"


def control_socket(tree_uid: int) -> str:
    """The path of this process's control socket, in a directory that `tree_uid` can enter."""
    name = f"mount-{os.getpid()}.sock"
    if tree_uid == os.geteuid():
        return paths.socket_path(paths.runtime_dir(), name)
    return os.path.join(_shared_dir(), name)


def _shared_dir() -> str:
    os.makedirs(SHARED_DIR, mode=0o755, exist_ok=True)
    found = os.lstat(SHARED_DIR)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise Denied(f"{SHARED_DIR} must be a directory that only root can write to; remove it")
    return SHARED_DIR


@contextlib.contextmanager
def registered(about: dict[str, Any]) -> Iterator[None]:
    """This mount's entry exists as long as the context lasts; it is whole whenever it can be seen.

    Entries of daemons that died at the same mountpoint go, and their sockets: whoever followed them would unmount
    this one.
    """
    known = registered_mounts()
    in_use = {about["control"], *(found.control for found, alive in known if alive)}
    for found, alive in known:
        if not alive and found.mountpoint == about["mountpoint"]:
            forget(found.pid)
            if found.control not in in_use:
                with contextlib.suppress(OSError):
                    os.unlink(parse_url(found.control).socket_path)
    path = _entry(os.getpid())
    write_whole(path, about)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def forget(pid: int) -> None:
    """Remove the entry of a daemon that died, which could not do it itself. None there is no error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_entry(pid))


def _entry(pid: int) -> str:
    return os.path.join(paths.mounts_dir(), f"{pid}.json")
