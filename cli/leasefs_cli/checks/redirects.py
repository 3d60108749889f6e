"""Checks of redirects: native mounts on a mount that the mount itself does not know of.

It knows each that it made; one that it could not undo, or that is a copy by somebody else, serves the tree
without asking anybody.
"""

from __future__ import annotations

import json
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from leasefs.core.errors import NotMounted
from leasefs.mount.bind import unbind
from leasefs.mount.mountinfo import below, mounts
from leasefs_cli.asking_a_mount import in_time
from leasefs_cli.checks.finding import WARN, Finding, Repair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.mountinfo import Mount

# One that is being made is there a moment before the mount tells of it.
_LOOK_AGAIN_S = 1.0


def on_a_dead_mount(mount: Mount) -> Finding | None:
    """What still stands on a mount that is dead: nobody new is led there, and it goes with the mount."""
    places = [os.fsdecode(inner.mountpoint) for inner in below(mount.mountpoint)]
    if not places:
        return None
    mountpoint = os.fsdecode(mount.mountpoint)
    return Finding(
        WARN,
        f"redirects {mountpoint}",
        f"left on the dead mount: {', '.join(places)}",
        f"they go with it: leasefs unmount {mountpoint}",
    )


def on_a_live_mount(mount: Mount) -> Iterator[Finding]:
    """Redirects that the mount does not know of."""
    unknown = _unknown(mount)
    if unknown:
        threading.Event().wait(_LOOK_AGAIN_S)
        unknown = {place: inner for place, inner in _unknown(mount).items() if place in unknown}
    for place in unknown:
        yield Finding(
            WARN,
            f"redirect {place}",
            "serves the tree without leases, and its mount does not know of it",
            f"leasefs doctor --fix, or umount -l {place}",
            Repair("detach it", partial(_detached, place)),
        )


def _detached(place: str) -> str:
    if not unbind(place, lazy=True):
        raise NotMounted(f"only root can: umount -l {place}", path=place)
    return "its mount did not know of it; detached"


def _unknown(mount: Mount) -> dict[str, Mount]:
    inner = below(mount.mountpoint)
    if not inner:
        return {}
    facts = facts_of_mount(os.fsdecode(mount.mountpoint))
    source = _directory(os.fsencode(facts["source"]), mount) if facts else None
    if source is None:
        return {}
    device, root = source
    known = {os.fsencode(path) for path in facts["redirects"]}
    found = {}
    for one in inner:
        path = one.mountpoint[len(mount.mountpoint.rstrip(b"/")) + 1 :]
        is_ours = one.device == device and one.root == root.rstrip(b"/") + b"/" + path
        if is_ours and path not in known:
            found[os.fsdecode(one.mountpoint)] = one
    return found


def facts_of_mount(mountpoint: str) -> dict[str, Any]:
    """What its `mount.json` says; nothing if it cannot be read, or not in time."""

    def read() -> dict[str, Any]:
        try:
            with open(f"{mountpoint}/.leasefs/mount.json", encoding="utf-8") as file:
                facts: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return {}
        return facts

    return in_time(read) or {}


def _directory(path: bytes, but: Mount) -> tuple[str, bytes] | None:
    """The device of a directory and where it lies in its file system, beneath the mount `but` for it."""
    inside = but.mountpoint.rstrip(b"/") + b"/"
    around = [
        mount
        for mount in mounts()
        if mount.mount_id != but.mount_id
        and not mount.mountpoint.startswith(inside)
        and (path + b"/").startswith(mount.mountpoint.rstrip(b"/") + b"/")
    ]
    if not around:
        return None
    # Of two at one place the later one covers the earlier.
    length, at = max((len(mount.mountpoint), at) for at, mount in enumerate(around))
    rest = path[length:].lstrip(b"/")
    root = around[at].root.rstrip(b"/")
    return around[at].device, root + b"/" + rest if rest else root or b"/"
