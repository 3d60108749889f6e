"""Finding the mount that a shell stands in, and the live mounts of this user.

A tree from anywhere may bring a directory `.leasefs` along, so a mount is known by the kernel's own
list (/proc/self/mountinfo, proc(5)), and only then is its `.leasefs/mount.json` believed.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from leasefs.client import paths
from leasefs.client.process import is_killed, is_stopped, process_identity
from leasefs.core.errors import NotMounted

FSTYPE = "fuse.leasefs"
_OCTAL = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


class MountFound(NamedTuple):
    """A live mount, as its `mount.json` tells.

    `beneath` is set when the shell's current directory was entered before the mount was made, so that
    relative names there reach the bare tree: `cd` into it again.
    """

    agent: str
    harness: str
    session: str
    territory: str
    ledger: str
    control: str
    source: str
    mountpoint: str
    pid: int
    process: str
    version: str
    beneath: bool = False


def find_mount(directory: str) -> MountFound | None:
    """The nearest leasefs mount at or above `directory` (absolute), or None.

    Other file systems mounted inside a mount do not hide it.

    Raises:
        NotMounted: if the nearest one is dead (its daemon is gone), or stopped.
    """
    mountpoints = _leasefs_mountpoints()
    if not mountpoints:
        return None
    _refuse_stopped(_nearest(directory, mountpoints))
    place = _nearest(os.path.realpath(directory), mountpoints)
    return None if place is None else _read(place, directory)


def _nearest(directory: str, mountpoints: set[str]) -> str | None:
    while directory not in mountpoints:
        if directory in {"/", ""}:
            return None
        directory = os.path.dirname(directory)
    return directory


def _refuse_stopped(mountpoint: str | None) -> None:
    """Before the mount is touched: who asks a stopped or hanging daemon for a file waits, and no Ctrl-C ends that."""
    if mountpoint is None:
        return
    for found, alive in registered_mounts():
        if found.mountpoint != mountpoint:
            continue
        if alive and is_stopped(found.pid):
            raise NotMounted(
                f"the daemon of the mount at {mountpoint} (process {found.pid}) is stopped: kill -CONT "
                f"{found.pid}, or `leasefs unmount --lazy {mountpoint}`",
                mountpoint=mountpoint,
                pid=found.pid,
            )
        if is_killed(found.pid) and found.process == process_identity(found.pid):
            raise NotMounted(
                f"the daemon of the mount at {mountpoint} (process {found.pid}) was killed, yet hangs in the "
                f"kernel; `leasefs unmount {mountpoint}`, then mount again",
                mountpoint=mountpoint,
                pid=found.pid,
            )


def require_mount(directory: str) -> MountFound:
    """As `find_mount`, but raises NotMounted when there is none."""
    found = find_mount(directory)
    if found is None:
        raise NotMounted(
            f"{directory} is not inside a leasefs mount; mount the tree with `leasefs mount`, or name an "
            "agent with --agent",
            path=directory,
        )
    return found


def live_mounts() -> list[MountFound]:
    """This user's mounts whose daemon runs, from the registry; dead entries are left out."""
    return [found for found, alive in registered_mounts() if alive]


def registered_mounts() -> list[tuple[MountFound, bool]]:
    """Every entry of the registry, and whether its daemon runs (for `doctor`)."""
    directory = paths.mounts_dir()
    entries = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(".json"):
            try:
                found = _parse(os.path.join(directory, name))
            except OSError:
                continue  # its daemon ended just now, or it is none of ours
            if found is not None:
                entries.append((found, _is_alive(found)))
    return entries


def _is_alive(found: MountFound) -> bool:
    return found.process == process_identity(found.pid) != "" and not is_killed(found.pid)


def mounts_of(place: str) -> list[MountFound]:
    """Live mounts with this mountpoint, source or agent name."""
    real = os.path.realpath(place)
    return [
        found
        for found in live_mounts()
        if found.agent == place or real in {found.mountpoint, found.source}
    ]


def facts_of(mountpoint: str) -> MountFound | None:
    """What the mount says of itself, or None if it says nothing that makes sense.

    Raises:
        OSError: ENOTCONN if it is dead. A daemon that is stopped is waited for without end.
    """
    return _parse(os.path.join(mountpoint, ".leasefs", "mount.json"))


def _read(mountpoint: str, directory: str) -> MountFound:
    try:
        found = facts_of(mountpoint)
    except OSError as error:
        raise NotMounted(
            f"the leasefs mount at {mountpoint} is dead ({error.strerror}): its daemon is gone; "
            f"`leasefs unmount {mountpoint}`, then mount again",
            mountpoint=mountpoint,
        ) from error
    if found is None:
        raise NotMounted(
            f"the leasefs mount at {mountpoint} does not say whose it is; unmount it, then mount again",
            mountpoint=mountpoint,
        )
    return found._replace(beneath=_is_beneath(directory))


def _parse(path: str) -> MountFound | None:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        try:
            said: dict[str, Any] = json.load(file)
        except ValueError:
            return None
    try:
        fields = {name: said[name] for name in _FIELDS}
    except (KeyError, TypeError):
        return None
    if any(not isinstance(value, int if name == "pid" else str) for name, value in fields.items()):
        return None
    return MountFound(**fields)


_FIELDS = tuple(name for name in MountFound._fields if name != "beneath")


def _is_beneath(directory: str) -> bool:
    """Whether the current directory is `directory` by name but another directory in fact."""
    here, named = os.stat("."), os.stat(directory)
    return os.path.realpath(directory) == os.getcwd() and (here.st_dev, here.st_ino) != (
        named.st_dev,
        named.st_ino,
    )


def _leasefs_mountpoints() -> set[str]:
    mountpoints = set()
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            if f" - {FSTYPE} " in line:
                mountpoints.add(_unescaped(line.split(" ")[4]))
    return mountpoints


def _unescaped(field: str) -> str:
    for code, character in _OCTAL.items():
        field = field.replace(code, character)
    return field
