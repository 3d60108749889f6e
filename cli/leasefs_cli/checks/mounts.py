"""Checks of the mounts: dead ones, silent ones, registry entries that outlived their daemon."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from leasefs.client.address import parse_url
from leasefs.client.find import registered_mounts
from leasefs.core.errors import LeasefsError
from leasefs.mount.mountinfo import mounts, top_at
from leasefs.mount.registry import forget
from leasefs.service.liveness import known_dead
from leasefs_cli.asking_a_mount import ANSWER_TIMEOUT_S, ask
from leasefs_cli.checks.finding import FAIL, OK, UNKNOWN, WARN, Finding, Repair
from leasefs_cli.checks.redirects import on_a_dead_mount, on_a_live_mount
from leasefs_cli.checks.watching import unwatched
from leasefs_cli.detaching import clear_away
from leasefs_cli.mount_link import control_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.client.find import MountFound


def mount_findings() -> Iterator[Finding]:
    """One finding per mount of leasefs, what is wrong with its redirects, one per entry without a process."""
    places = []
    for mount in mounts():
        if mount.is_leasefs:
            places.append(os.fsdecode(mount.mountpoint))
            said = ask(places[-1])
            found = one_mount(places[-1], said.errno)
            if found.level == OK:
                yield found
                if said.facts is not None:
                    yield from without_socket(said.facts)
                yield from on_a_live_mount(mount)
                yield from unwatched(places[-1])
                continue
            if (left := on_a_dead_mount(mount)) is not None:
                yield left
            yield found
    if not places:
        yield Finding(OK, "mounts", "none")
    yield from registry(places)


def one_mount(mountpoint: str, code: int | None) -> Finding:
    """Does its daemon answer? `code` is what it said (`Said.errno`)."""
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
            _clearing(mountpoint),
        )
    if code == errno.EACCES:
        return Finding(UNKNOWN, f"mount {mountpoint}", "of another user, not looked into")
    if code:
        return Finding(WARN, f"mount {mountpoint}", os.strerror(code), "")
    return Finding(OK, f"mount {mountpoint}", "answers")


def without_socket(mount: MountFound) -> Iterator[Finding]:
    """Whether a mount that serves has lost the socket that commands speak to it by, as with a login session's directory."""
    if _is_missing(parse_url(control_url(mount)).socket_path):
        yield Finding(
            WARN,
            f"control socket {mount.mountpoint}",
            f"{mount.control} is gone, so no command can speak to this mount",
            f"leasefs unmount {mount.mountpoint}, then mount again; loginctl enable-linger keeps such sockets at logout",
        )


def _is_missing(path: str) -> bool:
    """Proof is wanted: where we may not look, it may be there."""
    try:
        os.stat(path)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def _clearing(mountpoint: str) -> Repair:
    """To unmount a dead mount. In place the tree lies open after that, so somebody has to want it."""
    entries: list[MountFound] = []
    with suppress(LeasefsError):  # the registry's own check says so
        entries = [one for one, _ in registered_mounts() if one.mountpoint == mountpoint]
    in_place = not entries or entries[-1].source == mountpoint
    what = "unmount it"
    if in_place:
        what += " (the tree lies open to everybody until it is mounted again)"
    return Repair(what, partial(_clear, mountpoint), weighty=in_place)


def _clear(mountpoint: str) -> str:
    mount = top_at(mountpoint)
    if mount is not None and mount.is_leasefs:
        clear_away(mount)
    return "unmounted, it was dead"


def _forget(found: MountFound) -> str:
    forget(found.pid)
    return "forgotten"


def registry(places: list[str]) -> Iterator[Finding]:
    """Entries of mounts whose daemon is gone or whose mount is."""
    try:
        entries = registered_mounts()
    except LeasefsError as error:
        yield Finding(UNKNOWN, "registry", error.message, "")
        return
    for found, alive in entries:
        name = f"registry {found.mountpoint}"
        if not alive:
            # Of one in another container there is no proof, and the entry may be its own.
            may_go = found.mountpoint not in places and known_dead(found.process)
            yield Finding(
                WARN,
                name,
                f"of {found.agent}, whose daemon {found.pid} is gone",
                f"leasefs unmount {found.mountpoint}",
                Repair("forget it", partial(_forget, found)) if may_go else None,
            )
        elif found.mountpoint not in places:
            advice = f"kill {found.pid}, then mount again"
            yield Finding(
                WARN, name, f"daemon {found.pid} of {found.agent} runs without its mount", advice
            )
