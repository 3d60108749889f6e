"""Checks of rescues: work that was kept when its lease ended. Has anybody taken it up, and is it still where it was put?

It is somebody's work, so nothing here repairs anything.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from leasefs.client import api, names, paths
from leasefs.client.blocking import Link
from leasefs.client.clock import BoottimeClock
from leasefs.core.errors import LeasefsError
from leasefs.mount.mountinfo import mounts
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import git_at
from leasefs.vcs.rescue import bare_repository, place_outside, rescues
from leasefs_cli.asking_a_mount import ask
from leasefs_cli.checks.finding import FAIL, OK, UNKNOWN, WARN, Finding
from leasefs_cli.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = 5


def rescue_findings(url: str) -> Iterator[Finding]:
    """How many there are and since when; and one finding for each tree on this machine that does not have its own."""
    try:
        known = Link(url, timeout_s=5.0).send(api.rescues())["rescues"]
    except LeasefsError as error:
        yield Finding(UNKNOWN, "rescues", f"the ledger cannot be asked: {error.message}", "")
        return
    if not known:
        yield Finding(OK, "rescues", "none")
        return
    yield _not_collected(known)
    by_root: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in known:
        if one.get("host") == names.host_name() and one.get("root"):
            by_root[one["root"]].append(one)
    for root, theirs in sorted(by_root.items()):
        found = _kept(root, theirs)
        if found is not None:
            yield found


def _not_collected(known: list[dict[str, Any]]) -> Finding:
    oldest = min(known, key=lambda one: float(one["wall_s"]))
    ago = in_words(max(0.0, BoottimeClock().wall_s() - oldest["wall_s"]))
    return Finding(
        WARN,
        "rescues",
        f"{len(known)} not collected; the oldest, {oldest['id']} of {oldest['agent']}, is {ago} old",
        "leasefs rescue list --all; then leasefs rescue apply ID, or drop ID",
    )


def _kept(root: str, known: list[dict[str, Any]]) -> Finding | None:
    """None if all of them are there, whole."""
    name = f"rescues in {root}"
    try:
        found = _there(root)
    except (VcsError, LeasefsError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return Finding(UNKNOWN, name, f"the repository cannot be looked into: {why}", "")
    missing = sorted(one["id"] for one in known if one["id"] not in found)
    if not missing:
        return None
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return Finding(
        FAIL,
        name,
        f"{', '.join(missing[:_NAMED])}{more} cannot be found there, or cannot be read",
        "look for the commit in clones and backups (leasefs rescue list --json names it); then leasefs rescue drop ID",
    )


def _there(root: str) -> frozenset[str]:
    """The whole rescues of the tree's repository. Raises VcsError, LeasefsError, OSError."""
    _refuse_silent(root)
    gitdir = git_at(root)
    if gitdir is not None:
        with gitdir:
            return frozenset(one.id for one in rescues(gitdir) if one.paths)
    place = place_outside(paths.state_dir(), root)
    if not os.path.isdir(place):
        return frozenset()
    with bare_repository(place) as outside:
        return frozenset(one.id for one in rescues(outside) if one.paths)


def _refuse_silent(root: str) -> None:
    """Whoever looks into a mount whose daemon does not answer waits without end."""
    for mount in mounts():
        place = os.fsdecode(mount.mountpoint)
        if mount.is_leasefs and (root + "/").startswith(place.rstrip("/") + "/"):
            code = ask(place).errno
            if code != 0:
                code = code or errno.ETIMEDOUT
                raise OSError(code, os.strerror(code), place)
