"""Where a mount may be made.

Everything is checked before the kernel is asked, so that each obstacle has a message of its own.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from dataclasses import dataclass, field

from leasefs.core.errors import NotMounted
from leasefs.mount.mountinfo import Mount, mounts, top_at


@dataclass(frozen=True, slots=True)
class MountOptions:
    """What to mount where, for whom.

    `source` and `mountpoint` are the same directory for a mount in place. `allow_other` lets other
    users in (root always does); `xattrs=False` tells the kernel that there are none, which saves a
    request before every write. `unmount_within_s` bounds the wait for those who still use the mount.
    With `redirects` what is scratch as a whole is served natively, where that is permitted.
    `cpu_latency` is one of `leasefs.core.settings.CPU_LATENCIES`.
    `over_dead` makes the mount also where a dead one is; `covers_dead` says that one is there and stays
    beneath. `entry` is the path by which the source is opened, if not its own.
    """

    source: str
    mountpoint: str
    agent: str
    allow_other: bool = False
    xattrs: bool = True
    unmount_within_s: float = 5.0
    redirects: bool = False
    cpu_latency: str = "any"
    over_dead: bool = False
    covers_dead: bool = False
    entry: str = ""
    # The mountpoint with symlinks resolved, as the kernel lists it. Found once, before anything is mounted:
    # to resolve it later would be to ask the mount.
    real_mountpoint: str = field(init=False)

    def __post_init__(self) -> None:
        if not self.entry:
            object.__setattr__(self, "entry", self.source)
        object.__setattr__(self, "real_mountpoint", os.path.realpath(self.mountpoint))

    @property
    def for_others(self) -> bool:
        """Whether other users than the daemon's may come in."""
        return self.allow_other or os.geteuid() == 0

    @property
    def in_place(self) -> bool:
        """Whether the tree is covered by its own mount. Only to be asked before it is."""
        return os.path.realpath(self.source) == self.real_mountpoint


def check(options: MountOptions) -> None:
    """Refuse what cannot work. Raises NotMounted that says what is wrong and what to do."""
    _check_directory(options.entry, "name the directory of a working tree")
    if not options.covers_dead:
        _check_directory(options.mountpoint, f"create it first: mkdir -p {options.mountpoint}")
    _check_nesting(options)
    _check_free(options)
    _check_fuse(options)


def _check_directory(path: str, if_missing: str) -> None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise NotMounted(f"{path} does not exist; {if_missing}", path=path) from None
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise NotMounted(
                f"{path} is a dead mount: its daemon ended by a fault; "
                f"clear it first: leasefs unmount {path}",
                path=path,
            ) from None
        raise NotMounted(f"{path} cannot be reached: {error.strerror}", path=path) from error
    if not stat.S_ISDIR(found.st_mode):
        raise NotMounted(f"{path} is not a directory; a mount covers a directory", path=path)


def _check_nesting(options: MountOptions) -> None:
    source, mountpoint = os.path.realpath(options.source), options.real_mountpoint
    if source == mountpoint:
        return
    if mountpoint.startswith(source.rstrip("/") + "/"):
        raise NotMounted(
            f"{mountpoint} lies inside {source}, so the mount would contain itself; "
            f"choose a mountpoint outside, or mount in place: leasefs mount {source}",
            path=mountpoint,
        )
    if source.startswith(mountpoint.rstrip("/") + "/"):
        raise NotMounted(
            f"{mountpoint} contains {source}, so the mount would cover its own source; "
            "choose a mountpoint elsewhere",
            path=mountpoint,
        )


def _check_free(options: MountOptions) -> None:
    mountpoint = options.real_mountpoint
    there = top_at(mountpoint)
    if there is not None and there.is_leasefs and not options.covers_dead:
        raise NotMounted(
            f"{mountpoint} is already a leasefs mount ({os.fsdecode(there.source)}); "
            f"use it, or end it first: leasefs unmount {mountpoint}",
            path=mountpoint,
        )
    covered = options.covers_dead and options.in_place
    source = os.path.realpath(options.source)
    inside = _leasefs_mount_around(os.path.dirname(source) if covered else source)
    if inside is not None:
        where = os.fsdecode(inside.mountpoint)
        raise NotMounted(
            f"{options.source} lies inside the leasefs mount {where}. Several agents on one tree: "
            f"leasefs unmount {where}, then mount it for each on an empty directory elsewhere",
            path=options.source,
        )
    if not options.in_place and not options.covers_dead and os.listdir(mountpoint):
        raise NotMounted(
            f"{mountpoint} is not empty, and a mount would hide what is in it; "
            "choose an empty directory",
            path=mountpoint,
        )


def _leasefs_mount_around(path: str) -> Mount | None:
    wanted = os.fsencode(path) + b"/"
    around = [
        mount for mount in mounts() if wanted.startswith(mount.mountpoint.rstrip(b"/") + b"/")
    ]
    innermost = max(around, key=lambda mount: len(mount.mountpoint), default=None)
    return innermost if innermost is not None and innermost.is_leasefs else None


def _check_fuse(options: MountOptions) -> None:
    if not os.path.exists("/dev/fuse"):
        raise NotMounted(
            "/dev/fuse does not exist: load the kernel module (modprobe fuse), "
            "or give the container the device (--device /dev/fuse)"
        )
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise NotMounted(
            "/dev/fuse may not be opened by this user; as root: chmod 666 /dev/fuse "
            "(udev does that by itself where it runs)"
        )
    if os.geteuid() == 0:
        return
    if shutil.which("fusermount3") is None:
        raise NotMounted("fusermount3 is not installed; install the package fuse3")
    if options.allow_other and not user_allow_other():
        raise NotMounted(
            "allow_other is only for root unless /etc/fuse.conf has a line user_allow_other; "
            "add it, or mount without --allow-other"
        )


def user_allow_other(path: str = "/etc/fuse.conf") -> bool:
    """Whether ordinary users may let others into their mounts (mount.fuse3(8))."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return any(line.strip() == "user_allow_other" for line in file)
    except FileNotFoundError:
        return False
