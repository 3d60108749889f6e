"""Where the branches of a repository are, and which of them a working tree can have moved."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import read_file
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.head import head_commit

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir
    from leasefs.vcs.worktree import WorkTree

HEAD = b"HEAD"
_LIMIT_BYTES = 4096
_SYMBOLIC = b"ref: "
# While one of these is there, HEAD goes from commit to commit (git-rebase(1)); the branch moves at the end.
_REBASES = (b"rebase-merge", b"rebase-apply")


@dataclass(frozen=True, slots=True)
class Branches:
    """`tips` by full name in order, HEAD first where it is detached.

    `ours`: the one that the working tree has checked out and, in a clone's main one, those that no other has.
    `inside_tree`: whether the git directory is in the tree.
    """

    tips: dict[bytes, str] = field(default_factory=dict)
    ours: frozenset[bytes] = frozenset()
    inside_tree: bool = False


def checked_out(tree: WorkTree) -> Branches:
    """What HEAD names, and nothing else, read from files alone; nothing if that cannot be read."""
    try:
        gitdir = find_git(tree.root_fd, tree.around())
    except VcsError:
        return Branches()
    if gitdir is None:
        return Branches()
    with gitdir:
        head, commit = _head(gitdir.fd), head_commit(gitdir)
        ref = head.removeprefix(_SYMBOLIC) if head.startswith(_SYMBOLIC) else HEAD
        return Branches({ref: commit} if commit else {}, frozenset({ref}), gitdir.inside_tree)


def branches_of(tree: WorkTree) -> Branches:
    """Ask git. Nothing of a tree that is under none.

    Raises:
        VcsError: git cannot be asked.
    """
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.plumbing import run_git

    gitdir = find_git(tree.root_fd, tree.around())
    if gitdir is None:
        return Branches()
    with gitdir:
        asked = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"]
        pairs = (line.split(b" ", 1) for line in run_git(gitdir.of_clone(), asked).splitlines())
        tips = {name: commit.decode() for commit, name in pairs}
        head = _head(gitdir.fd)
        if head.startswith(_SYMBOLIC):
            ours = {head.removeprefix(_SYMBOLIC)}
        else:
            ours = {HEAD}
            if head and not any(map(_in(gitdir.fd).__contains__, _REBASES)):
                tips = {HEAD: head.decode(errors="replace")} | tips
        if os.path.sameopenfile(gitdir.fd, gitdir.common_fd):
            ours |= tips.keys() - _checked_out_elsewhere(gitdir)
        return Branches(tips, frozenset(ours), gitdir.inside_tree)


def _checked_out_elsewhere(gitdir: GitDir) -> set[bytes]:
    try:
        fd = os.open(b"worktrees", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=gitdir.fd)
    except FileNotFoundError:
        return set()
    try:
        return {_head(fd, name).removeprefix(_SYMBOLIC) for name in _in(fd)}
    finally:
        os.close(fd)


def _in(directory_fd: int) -> set[bytes]:
    return set(map(os.fsencode, os.listdir(directory_fd)))


def _head(directory_fd: int, worktree: bytes = b"") -> bytes:
    try:
        return read_file(directory_fd, os.path.join(worktree, HEAD), _LIMIT_BYTES).strip()
    except OSError:
        return b""
