"""Checks of the mounts: dead ones, silent ones, registry entries that outlived their daemon."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from leasefs.client.find import registered_mounts
from leasefs.core.errors import LeasefsError
from leasefs.mount.mountinfo import mounts
from leasefs_cli.asking_a_mount import ANSWER_TIMEOUT_S, ask
from leasefs_cli.checks.finding import FAIL, OK, WARN, Finding
from leasefs_cli.checks.redirects import on_a_dead_mount, on_a_live_mount
from leasefs_cli.checks.watching import unwatched

if TYPE_CHECKING:
    from collections.abc import Iterator


def mount_findings(*, fix: bool) -> Iterator[Finding]:
    """One finding per mount of leasefs, what is wrong with its redirects, one per entry without a process."""
    places = []
    for mount in mounts():
        if mount.is_leasefs:
            places.append(os.fsdecode(mount.mountpoint))
            found = one_mount(places[-1])
            yield found
            if found.level == OK:
                yield from on_a_live_mount(mount, fix=fix)
                yield from unwatched(places[-1])
            elif (left := on_a_dead_mount(mount)) is not None:
                yield left
    if not places:
        yield Finding(OK, "mounts", "none")
    yield from registry(places)


def one_mount(mountpoint: str) -> Finding:
    """Does its daemon answer?"""
    code = ask(mountpoint).errno
    if code is None:
        return Finding(
            FAIL,
            f"mount {mountpoint}",
            f"its daemon has not answered for {ANSWER_TIMEOUT_S:g} s",
            f"is it stopped (kill -CONT)? else leasefs unmount {mountpoint}, which cuts it off",
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
