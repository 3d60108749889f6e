"""Checks of the mounts: dead ones, silent ones, registry entries that outlived their daemon."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

from leasefs.client.find import registered_mounts
from leasefs.core.errors import LeasefsError
from leasefs.mount.mountinfo import mounts
from leasefs_cli.checks.finding import FAIL, OK, WARN, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER_TIMEOUT_S = 3.0


def mount_findings() -> Iterator[Finding]:
    """One finding per mount of leasefs, and one per entry without a process."""
    places = [os.fsdecode(mount.mountpoint) for mount in mounts() if mount.is_leasefs]
    for place in places:
        yield one_mount(place)
    if not places:
        yield Finding(OK, "mounts", "none")
    yield from registry(places)


def one_mount(mountpoint: str) -> Finding:
    """Does its daemon answer?"""
    code = _errno_of(mountpoint)
    if code is None:
        return Finding(
            FAIL,
            f"mount {mountpoint}",
            f"its daemon has not answered for {ANSWER_TIMEOUT_S:g} s",
            "is it stopped (kill -CONT)? else `leasefs unmount --lazy` it",
        )
    if code == errno.ENOTCONN:
        return Finding(
            FAIL,
            f"mount {mountpoint}",
            "dead: its daemon is gone, and the tree stays closed",
            f"leasefs unmount {mountpoint}, then mount again",
        )
    if code == errno.EACCES:
        return Finding(OK, f"mount {mountpoint}", "of another user, not looked into")
    if code:
        return Finding(WARN, f"mount {mountpoint}", os.strerror(code), "")
    return Finding(OK, f"mount {mountpoint}", "answers")


def registry(places: list[str]) -> Iterator[Finding]:
    """Entries of mounts whose daemon is gone or whose mount is."""
    try:
        entries = registered_mounts()
    except LeasefsError as error:
        yield Finding(FAIL, "registry", error.message, "")
        return
    for found, alive in entries:
        name = f"registry {found.mountpoint}"
        if not alive:
            advice = f"leasefs unmount {found.mountpoint}"
            yield Finding(WARN, name, f"of {found.agent}, whose daemon {found.pid} is gone", advice)
        elif found.mountpoint not in places:
            advice = f"kill {found.pid}, then mount again"
            yield Finding(
                WARN, name, f"daemon {found.pid} of {found.agent} runs without its mount", advice
            )


def _errno_of(path: str) -> int | None:
    """What a request to the mount fails with, 0 if with nothing, None if it hangs (a stopped daemon)."""
    answer: list[int] = []

    def ask() -> None:
        try:
            os.statvfs(path)  # never answered from the kernel's caches, as stat is
        except OSError as error:
            answer.append(error.errno or errno.EIO)
        else:
            answer.append(0)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_TIMEOUT_S)
    return answer[0] if answer else None
