"""Who uses a mount: processes with a directory, a root or an open or mapped file in it.

Only /proc is read, never the mount, so that a dead or silent one cannot hold us up.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client.process import program_name
from leasefs.mount.mountinfo import below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.mountinfo import Mount


class User(NamedTuple):
    """A process and the first thing of it that was found in the mount."""

    pid: int
    program: str
    what: str


def users_of(mount: Mount, *, but: frozenset[int]) -> list[User]:
    """All processes that keep the mount busy, `but` for these (its daemon, ourselves).

    What is mounted below counts: redirects first of all.
    """
    ids = frozenset({mount.mount_id, *(inner.mount_id for inner in below(mount.mountpoint))})
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in but:
            what = _first_in(mount, ids, f"/proc/{entry}")
            if what is not None:
                found.append(User(int(entry), program_name(int(entry)), what))
    return found


def _first_in(mount: Mount, ids: frozenset[int], process: str) -> str | None:
    prefix = os.fsdecode(mount.mountpoint).rstrip("/") + "/"
    for link in _links(process):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if (target + "/").startswith(prefix):
            led_into = _mount_id(link)
            if led_into is None or led_into in ids:
                return target.removesuffix(" (deleted)")
    return None


def _links(process: str) -> Iterator[str]:
    yield f"{process}/cwd"
    yield f"{process}/root"
    yield f"{process}/exe"
    for folder in ("fd", "map_files"):
        try:
            names = os.listdir(f"{process}/{folder}")
        except OSError:
            continue
        for name in names:
            yield f"{process}/{folder}/{name}"


def _mount_id(link: str) -> int | None:
    """The mount that the link leads into; None if that is not ours to see.

    A path alone does not tell: the tree beneath a mount in place has the same. O_PATH asks no file
    system (open(2)), and fdinfo names the mount (proc_pid_fdinfo(5)).
    """
    try:
        handle = os.open(link, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as info:
            return next(int(line.split()[1]) for line in info if line.startswith("mnt_id:"))
    finally:
        os.close(handle)
