"""Taking down a mount that no daemon takes down itself: a dead one, or one that does not answer."""

from __future__ import annotations

import ctypes
import os
import subprocess

from leasefs.core.errors import NotMounted

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
        problem = os.strerror(ctypes.get_errno())
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
