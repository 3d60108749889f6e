"""Which process is which, and which started which: for the guard, who is told a number and nothing else.

A number is not a process. It is used again when one ends; and a shell that has just written a file may become git
under the same number (`git diff > FILE` opens FILE before there is a git).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from leasefs.mount.mountinfo import parse, top_at
from leasefs.mount.proc_file import read_proc

if TYPE_CHECKING:
    from collections.abc import Iterator

# More than git, hooks and shells ever are between a command and what it started.
_GENERATIONS = 16
# Counted from the field after the name (proc_pid_stat(5)): ppid, starttime, startstack, arg_start.
_PARENT, _STARTED, _STACK, _ARGUMENTS = 1, 19, 25, 45
_STAT_BYTES = 4096


class Identity(NamedTuple):
    """Equal as long as it is the same program in the same process.

    Where its memory lies is drawn anew by each execve(2); of another user's process that reads as 0.
    """

    parent: int
    started: bytes
    stack: bytes
    arguments: bytes

    def is_same(self, other: Identity) -> bool:
        """Whether both are of one program; its parent may have ended meanwhile."""
        return self[1:] == other[1:]


def identity(pid: int) -> Identity | None:
    """Who has this number now; None if nobody."""
    try:
        found = read_proc(f"/proc/{pid}/stat", _STAT_BYTES)
        fields = found[found.rindex(b")") + 2 :].split()
        return Identity(int(fields[_PARENT]), fields[_STARTED], fields[_STACK], fields[_ARGUMENTS])
    except (OSError, ValueError, IndexError):
        return None


def ancestors(parent: int) -> Iterator[int]:
    """The processes above one with this parent, nearest first, that can be seen."""
    for _ in range(_GENERATIONS):
        if parent <= 1:
            return
        yield parent
        found = identity(parent)
        parent = 0 if found is None else found.parent


def root_seen_by(pid: int, mountpoint: bytes) -> bytes:
    """Where a process sees the tree that is mounted at `mountpoint` here. Blocks.

    In a mount namespace of its own (mount_namespaces(7)), as in a container, that may be anywhere.
    """
    ours = top_at(os.fsdecode(mountpoint))
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd".encode())
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            there = parse(file.read())
    except (OSError, ValueError):
        return mountpoint
    if ours is None:
        return mountpoint
    places = [one.mountpoint for one in there if one.device == ours.device and one.root == b"/"]
    around = [place for place in places if _is_below(cwd, place)]
    if around:
        return max(around, key=len)
    return mountpoint if mountpoint in places or not places else places[-1]


def _is_below(path: bytes, place: bytes) -> bool:
    return path == place or path.startswith(place.rstrip(b"/") + b"/")
