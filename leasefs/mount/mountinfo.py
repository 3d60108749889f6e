"""Reading /proc/self/mountinfo (proc_pid_mountinfo(5)): what is mounted where, without touching it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

FILESYSTEM = "fuse.leasefs"

_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount. `device` is major:minor as in the file; paths have their escapes undone.

    `root` is which directory of its file system is mounted, `parent_id` the mount that it is mounted on.
    """

    mount_id: int
    device: str
    mountpoint: bytes
    filesystem: str
    source: bytes
    root: bytes = b"/"
    parent_id: int = 0

    @property
    def is_leasefs(self) -> bool:
        """Whether it is one of ours."""
        return self.filesystem == FILESYSTEM


def parse(text: bytes) -> list[Mount]:
    """All mounts, in the file's order: a later one at the same place covers an earlier one."""
    return [_parse_line(line) for line in text.splitlines() if line]


def _parse_line(line: bytes) -> Mount:
    fields = line.split(b" ")
    after = fields.index(b"-", 6)
    return Mount(
        mount_id=int(fields[0]),
        device=fields[2].decode("ascii"),
        mountpoint=_unescape(fields[4]),
        filesystem=_unescape(fields[after + 1]).decode(errors="surrogateescape"),
        source=_unescape(fields[after + 2]),
        root=_unescape(fields[3]),
        parent_id=int(fields[1]),
    )


def _unescape(field: bytes) -> bytes:
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field)


def mounts() -> list[Mount]:
    """What this process sees mounted now."""
    with open("/proc/self/mountinfo", "rb") as file:
        return parse(file.read())


def not_left_behind(listed: list[Mount]) -> list[Mount]:
    """Those that do not hang below a leasefs mount with another mount over all of it: a dead one's redirects do."""
    ours = {mount.mount_id: mount.mountpoint for mount in listed if mount.is_leasefs}
    covered = {mount.parent_id for mount in listed if ours.get(mount.parent_id) == mount.mountpoint}
    return [
        mount
        for mount in listed
        if mount.parent_id not in covered or mount.mountpoint == ours[mount.parent_id]
    ]


def top_at(path: str) -> Mount | None:
    """The mount that one reaches at exactly this path, or None if none is mounted there."""
    wanted = os.fsencode(path)
    found = [mount for mount in mounts() if mount.mountpoint == wanted]
    return found[-1] if found else None


def below(mountpoint: bytes) -> list[Mount]:
    """What is mounted on directories below a mountpoint, in the order in which it can be unmounted."""
    prefix = mountpoint.rstrip(b"/") + b"/"
    return [mount for mount in reversed(mounts()) if mount.mountpoint.startswith(prefix)]
