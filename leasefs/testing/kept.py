"""Rescues as tests look at them: what a tree would be again if they were put back."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from leasefs.testing.random_writer import state_of
from leasefs.testing.uncommitted import git
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.rescue import restore

if TYPE_CHECKING:
    from leasefs.testing.random_writer import State

REFS = "refs/leasefs/rescue/"


def rescue_ids(root: str, lease: str) -> list[str]:
    """The rescues of a lease in the repository of the tree at `root`, in the order of their making."""
    refs = git(root, "for-each-ref", "--sort=refname", "--format=%(refname)", REFS).decode().split()
    ids = [ref.removeprefix(REFS) for ref in refs]
    return [id_ for id_ in ids if id_ == lease or id_.startswith(f"{lease}-")]


def restored(root: str, rescue_id: str, at: str) -> State:
    """What there is when the rescue is put back onto a checkout of what it was made from, a new directory `at`."""
    has_parent = git(root, "rev-parse", "-q", "--verify", f"{REFS}{rescue_id}^", ok=(0, 1))
    os.mkdir(at)
    if has_parent:
        git(root, "worktree", "add", "-q", "--detach", f"{at}/tree", has_parent.decode().strip())
    else:
        subprocess.run(["git", "init", "-q", f"{at}/tree"], check=True)
    root_fd, target_fd = (os.open(path, os.O_RDONLY) for path in (root, f"{at}/tree"))
    try:
        found = find_git(root_fd)
        assert found is not None
        with found as repository:
            restore(repository, rescue_id, target_fd)
    finally:
        os.close(root_fd)
        os.close(target_fd)
    state = state_of(f"{at}/tree")
    state.pop(".git", None)
    if has_parent:
        git(root, "worktree", "remove", "--force", f"{at}/tree")
    return state
