"""Would a write pass? Judged by the mount's own rule, `leasefs.core.policy`, on what the ledger knows.

The mount judges the same way with its own view of time, so around an expiry the two may differ for
a moment; the mount's word is the one that counts.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from leasefs.core.carving import Carved
from leasefs.core.errors import InvalidRequest
from leasefs.core.globs import literal_tree, parse_glob
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode, trust_margin_s
from leasefs.core.overlap import TooComplex, uncovered
from leasefs.core.paths import RelPath
from leasefs.core.policy import Allowed, Op, Place, Reason, Refused, Target, Verdict, decide
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.ignore import IgnoreRules
from leasefs.vcs.tracked import load_tracked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.client import api
    from leasefs.client.understand import Roots

_CONTROL = b".leasefs"
_NOW_S = 0.0


def judge(
    roots: Roots, path: bytes, own: Sequence[api.Body], others: Sequence[api.Body] = ()
) -> Verdict:
    """The verdict on a write to `path`, for a directory on changing anything in it, under leases `own`.

    Of the claims of `others` there, those count that were carved out of one's own. Other names of a file with several (hard links) are not looked for: the mount does that.

    Raises:
        InvalidRequest: git's data cannot be read.
    """
    is_dir = _is_dir(roots, path)
    place, tracked = _ground(roots, path, is_dir=is_dir)
    if is_dir and place is Place.TREE:
        return _judge_below(path, _view(own, others))
    return decide(Op.OPEN, [Target(path, place, tracked=tracked)], _view(own, others), _NOW_S)


def names_of(roots: Roots, path: bytes) -> int:
    """How many names (hard links) the file at `path` has; 0 if there is none, or it is no file."""
    try:
        found = os.lstat(os.path.join(os.fsencode(roots.mountpoint), path))
    except OSError:
        return 0
    return found.st_nlink if stat.S_ISREG(found.st_mode) else 0


def _is_dir(roots: Roots, path: bytes) -> bool:
    full = os.path.join(os.fsencode(roots.mountpoint), path)
    return os.path.isdir(full) and not os.path.islink(full)


def _judge_below(directory: bytes, view: HeldView) -> Verdict:
    """Everything below the directory; its own name, which a rename of it would need too, is left out."""
    if view.carved_in(directory) is not None:
        return Refused(Reason.DELEGATED, Op.RENAME, RelPath(directory))
    globs = [glob for lease in view.trusted(_NOW_S) for glob in lease.globs]
    try:
        missing = uncovered(literal_tree(directory), globs)
    except TooComplex:
        missing = RelPath(directory)
    if missing is None:
        return Allowed(view.may_need(directory, _NOW_S))
    return Refused(Reason.TREE_NOT_LEASED, Op.RENAME, missing)


def _view(own: Sequence[api.Body], others: Sequence[api.Body]) -> HeldView:
    """What the session holds, on a clock that stands at 0 now."""
    mine = {lease["lease"] for lease in own}
    return HeldView(
        (
            HeldLease(
                lease_id=lease["lease"],
                token=lease["token"],
                globs=tuple(parse_glob(glob) for glob in lease["globs"]),
                mode=Mode(lease["mode"]),
                ttl_s=lease["ttl_s"],
                trusted_until_s=lease["expires_in_s"] - trust_margin_s(lease["ttl_s"]),
            )
            for lease in own
            if lease["state"] in ("granted", "lapsed") and not _is_cold(lease)
        ),
        carved=[
            Carved(one["parent"], tuple(map(parse_glob, one["globs"])), one["agent"], one["lease"])
            for one in others
            if one.get("parent") in mine and one["state"] != "waiting"
        ],
    )


def _is_cold(lease: api.Body) -> bool:
    """Whether it was recalled so that no write may pass any more."""
    return bool((lease.get("recall") or {}).get("cold"))


def _ground(roots: Roots, path: bytes, *, is_dir: bool) -> tuple[Place, bool]:
    """The kind of ground, and whether git tracks the path."""
    if path == _CONTROL or path.startswith(_CONTROL + b"/"):
        return Place.CONTROL, False
    root_fd = os.open(roots.mountpoint, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _git_ground(root_fd, path, is_dir=is_dir)
    except VcsError as error:
        raise InvalidRequest(f"git cannot say whether the path is ignored: {error}") from error
    finally:
        os.close(root_fd)


def _git_ground(root_fd: int, path: bytes, *, is_dir: bool) -> tuple[Place, bool]:
    git = find_git(root_fd)
    if git is None:
        return Place.TREE, False
    with git:
        if git.owns(path):
            return Place.GIT, False
        tracked = load_tracked(git)
        rules = IgnoreRules(root_fd, git, tracked)
        place = Place.SCRATCH if rules.is_scratch(path, is_dir) else Place.TREE
        return place, tracked.is_tracked(path)
