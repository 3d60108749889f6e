"""Checks of what mounts set in repositories: settings of git that outlived their mount."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from leasefs.client.find import registered_mounts
from leasefs.core.errors import LeasefsError
from leasefs.mount.catching_up import left_behind
from leasefs.mount.mountinfo import top_at
from leasefs.vcs.errors import VcsError
from leasefs.vcs.fsmonitor import is_left_behind, sweep
from leasefs_cli.checks.finding import OK, UNKNOWN, WARN, Finding, Repair
from leasefs_cli.tree import find_root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def trees_in_question() -> list[str]:
    """The trees of all mounts that are known to have died, and the one here. Asked before anything is repaired."""
    found: dict[str, None] = {}
    try:
        found |= {one.source: None for one, alive in registered_mounts() if not alive}
        found |= {one.header.root: None for one in left_behind()}
    except LeasefsError:
        pass  # the registry's and the journals' own checks say so
    try:
        here = find_root(None)
    except (LeasefsError, OSError):
        here = None
    if here:
        found[here] = None
    return list(found)


def git_findings(trees: Iterable[str]) -> Iterator[Finding]:
    """One finding for each of these trees whose git settings no mount needs any more."""
    left = False
    for tree in trees:
        covering = top_at(os.path.realpath(tree))
        if covering is not None and covering.is_leasefs:
            continue  # by a mount that needs them, or a dead one that hides them
        found = _of(tree)
        if found is not None:
            left = True
            yield found
    if not left:
        yield Finding(OK, "git settings", "none left behind")


def _of(tree: str) -> Finding | None:
    name = f"git settings of {tree}"
    try:
        if not is_left_behind(tree):
            return None
    except FileNotFoundError:
        return None
    except (VcsError, OSError) as error:
        return Finding(UNKNOWN, name, str(error), "")
    advice = "leasefs doctor --fix takes them away; so does the end of the tree's next mount"
    repair = Repair("take them away", partial(_swept, tree))
    return Finding(WARN, name, "core.fsmonitor names a mount that is gone", advice, repair)


def _swept(tree: str) -> str:
    sweep(tree)
    return "taken away"
