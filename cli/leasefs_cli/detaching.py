"""Taking down a mount that no daemon takes down itself: a dead one, or one that does not answer."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from typing import TYPE_CHECKING

from leasefs.client.find import registered_mounts
from leasefs.core.errors import NotMounted
from leasefs.mount.mountinfo import below, top_at
from leasefs.mount.over_dead import clear_dead
from leasefs.mount.registry import forget
from leasefs_cli.printing import tell

if TYPE_CHECKING:
    from leasefs.mount.mountinfo import Mount

_CONNECTIONS = "/sys/fs/fuse/connections"
_MNT_FORCE = 1
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8


def detach(mountpoint: str, *, lazy: bool) -> None:
    """Unmount, with umount2(2) as root and fusermount3 otherwise.

    Raises:
        NotMounted: the kernel or fusermount3 refused; the message says why.
    """
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        flags = _UMOUNT_NOFOLLOW | (_MNT_DETACH if lazy else 0)
        if libc.umount2(os.fsencode(mountpoint), flags) == 0:
            return
        code = ctypes.get_errno()
        if code == errno.EINVAL:
            return  # no mount any more (umount(2)): without fusectl the abort itself may have unmounted it
        problem = os.strerror(code)
    else:
        command = ["fusermount3", "-u", *(["-z"] if lazy else []), "--", mountpoint]
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return
        said = done.stderr.strip().removeprefix("fusermount3: ")
        problem = said.removeprefix(f"failed to unmount {mountpoint}: ")
        problem = problem or f"fusermount3 ends with {done.returncode}"
    raise NotMounted(f"cannot unmount {mountpoint}: {problem}", path=mountpoint)


def clear_away(mount: Mount, *, lazy: bool = False) -> None:
    """Unmount a dead mount with all that stands on it or lies dead beneath it, and forget it. Raises NotMounted."""
    mountpoint = os.fsdecode(mount.mountpoint)
    # What stands on it cannot be reached through a dead mount, to be unmounted first; and who waited
    # needs a moment to let go.
    detach(mountpoint, lazy=lazy or bool(below(mount.mountpoint)))
    clear_dead(mountpoint)
    forget_dead(mountpoint)


def forget_dead(mountpoint: str) -> None:
    """Forget the registry's entries of mounts there that died, and take their git settings away."""
    for found, alive in registered_mounts():
        if not alive and found.mountpoint == mountpoint:
            forget(found.pid)
            _sweep(found.source)


def _sweep(source: str) -> None:
    """Git's settings that the dead mount left in the repository; they do no harm where they stay."""
    from leasefs.vcs.errors import VcsError
    from leasefs.vcs.fsmonitor import sweep

    covering = top_at(os.path.realpath(source))
    if covering is not None and covering.is_leasefs:
        return  # by a mount that needs them
    try:
        sweep(source)
    except (VcsError, OSError) as error:
        tell(f"core.fsmonitor may be left behind in {source}: {error}")


def cut_off(mount: Mount, why: str) -> None:
    """Abort the mount's connection and say so: whoever waits for its daemon gets an error.

    A killed daemon may hang on: a thread of it waits in the kernel for a lock that somebody holds who
    waits for its answer, and its end of the connection stays open. Only this ends both waits.
    """
    if _abort(mount):
        tell(f"{why}. Its connection was aborted: whoever waited for it got an error")
    else:
        tell(f"{why}. Its connection could not be aborted: whoever waits for it waits on")


def _abort(mount: Mount) -> bool:
    """Whether that was permitted: the mount's owner may, through fusectl, and root by umount2(2) as well."""
    number = mount.device.partition(":")[2]
    try:
        with open(f"{_CONNECTIONS}/{number}/abort", "w", encoding="ascii") as file:
            file.write("1")
    except OSError:
        if os.geteuid() != 0:
            return False
        # It aborts first, also where it then fails because the mount is in use (fuse_umount_begin).
        ctypes.CDLL(None).umount2(mount.mountpoint, _MNT_FORCE | _UMOUNT_NOFOLLOW)
    return True
