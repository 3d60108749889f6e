"""Taking a mount down while it is still served, so that nobody's request is lost."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import subprocess
from typing import TYPE_CHECKING

import trio

from leasefs.client.process import program_name
from leasefs.mount.bind import unbind
from leasefs.mount.mountinfo import Mount, below, top_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.redirecting import Redirecting

log = logging.getLogger(__name__)

_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def users_of(mountpoint: str) -> Iterator[tuple[int, str]]:
    """Processes that hold the mount, as (pid, what of it). Reads /proc only, never the mount."""
    prefix = mountpoint.rstrip("/") + "/"
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        for link in _links(f"/proc/{entry}"):
            with contextlib.suppress(OSError):
                target = os.readlink(link)
                if (target + "/").startswith(prefix):
                    yield int(entry), target
                    break


def _links(process: str) -> Iterator[str]:
    yield f"{process}/cwd"
    yield f"{process}/root"
    for folder in ("fd", "map_files"):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"{process}/{folder}"):
                yield f"{process}/{folder}/{name}"


async def unmount(
    mountpoint: str,
    ours: Mount,
    within_s: float,
    redirecting: Redirecting | None,
    hurry: trio.Event,
) -> None:
    """Unmount; while it is in use say by whom and wait, at most `within_s` or until `hurry`; then detach.

    Redirects go first. Does nothing if the mount at the place is not `ours` (any more).
    """
    told, inner = False, frozenset[int]()
    if redirecting is not None:
        await redirecting.stop()
        inner = redirecting.mount_ids()
    with trio.move_on_after(within_s):
        while not hurry.is_set():
            if await trio.to_thread.run_sync(_unmount_once, mountpoint, ours, inner):
                return
            if not told:
                told = True
                for pid, what in await trio.to_thread.run_sync(list, users_of(mountpoint)):
                    program = program_name(pid)
                    log.warning("%s is in use by %s[%d] (%s)", mountpoint, program, pid, what)
            with trio.move_on_after(0.1):
                await hurry.wait()
    log.warning("%s is still in use: detaching it", mountpoint)
    # Redirects go with it.
    await trio.to_thread.run_sync(_take_down, mountpoint, ours, True)


def _unmount_once(mountpoint: str, ours: Mount, inner: frozenset[int]) -> bool:
    for mount in below(os.fsencode(mountpoint)):
        if mount.mount_id in inner and not unbind(os.fsdecode(mount.mountpoint), lazy=False):
            return False
    return _take_down(mountpoint, ours, False)


def _take_down(mountpoint: str, ours: Mount, lazy: bool) -> bool:
    there = top_at(mountpoint)
    if there is None or there.device != ours.device:
        return True
    if os.geteuid() == 0:
        flags = _MNT_DETACH if lazy else 0
        return bool(_libc.umount2(os.fsencode(mountpoint), flags) == 0)
    command = ["fusermount3", "-u", *(["-z"] if lazy else []), "--", mountpoint]
    done = subprocess.run(
        command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
    )
    return done.returncode == 0
