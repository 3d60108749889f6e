"""Checks of what a mount sees of changes that others make beneath it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs_cli.checks.finding import WARN, Finding
from leasefs_cli.checks.redirects import facts_of_mount

if TYPE_CHECKING:
    from collections.abc import Iterator


def unwatched(mountpoint: str) -> Iterator[Finding]:
    """Whether there are directories in which foreign writes are not seen."""
    facts = facts_of_mount(mountpoint)
    missing = facts.get("unwatched_directories", 0)
    if missing == 0:
        return
    name = f"foreign writes {mountpoint}"
    if missing is None:
        yield Finding(
            WARN,
            name,
            "not seen: nothing can be watched on this file system, or by this user",
            "raise fs.inotify.max_user_instances (sysctl), or keep the tree on a local disk",
        )
    else:
        yield Finding(
            WARN,
            name,
            f"not seen in {missing} directories, which there is no room to watch",
            "raise fs.inotify.max_user_watches (sysctl), then mount again",
        )
