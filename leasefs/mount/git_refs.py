"""What a branch is about to move to, seen in the files that git makes first (lockfile.h, refs/files-backend.c).

The new commit stands in `REF.lock`; then the reflogs are written; then the lock is renamed onto the reference.
Refused while it opens a reflog, git takes its locks away and leaves no trace.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.paths import text
from leasefs.vcs.beneath import read_file
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import find_git

if TYPE_CHECKING:
    from leasefs.vcs.worktree import WorkTree

GIT = b".git/"
REFS = GIT + b"refs/heads/"
LOGS = GIT + b"logs/"
HEAD = GIT + b"HEAD"
_LIMIT_BYTES = 4096
_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SYMBOLIC = b"ref: "


class Move(NamedTuple):
    """`ref` is a branch, or HEAD where it is detached; `commit` is what it is about to name."""

    ref: bytes
    commit: str


def move_ahead(root_fd: int, path: bytes) -> Move | None:
    """The move of a branch that a change of this path, a reference or a reflog, belongs to; None if there is none."""
    ref = path.removeprefix(LOGS).removeprefix(GIT)
    if ref == b"HEAD":
        head = _read(root_fd, HEAD)
        if head.startswith(_SYMBOLIC):
            ref = head.removeprefix(_SYMBOLIC)
    if ref != b"HEAD" and not ref.startswith(b"refs/heads/"):
        return None
    commit = _read(root_fd, GIT + ref + b".lock")
    return Move(ref, commit.decode()) if _COMMIT.fullmatch(commit) else None


def authored_by(tree: WorkTree, move: Move) -> frozenset[bytes] | str:
    """Blocks: the paths that the commits of a move author; why not, if that cannot be told."""
    from leasefs.vcs.commit_paths import unleased_in
    from leasefs.vcs.plumbing import run_git

    try:
        gitdir = find_git(tree.root_fd, tree.around())
        if gitdir is None:
            return frozenset()
        with gitdir:
            asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", text(move.ref)]
            old = run_git(gitdir, asked, absent_status=1).decode().strip()
            ref = text(move.ref)
            return frozenset(unleased_in(gitdir, old, move.commit, lambda _: False, ref=ref))
    except (VcsError, OSError) as error:
        return f"what the commit holds cannot be told: {error}"


def _read(root_fd: int, path: bytes) -> bytes:
    try:
        return read_file(root_fd, path, _LIMIT_BYTES).strip()
    except OSError:
        return b""
