"""Which paths a commit authors: those it changes, less those that committed history brings along.

A merge, a cherry-pick, a revert or a rebase moves what was committed before; what its commits changed is not authored by
whoever runs it. The hooks ask about a commit that is being made, `unleased_in` about commits that were made without them.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.own_git import own_git
from leasefs.vcs.plumbing import run_git

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.vcs.gitdir import GitDir

    Git = Callable[..., bytes]

COMMITS_LIMIT = 1000
# To find out whether a commit repeats an earlier one.
_ALIKE_LIMIT = 200
_PATHS_LIMIT = 500
_TIMEOUT_S = 20.0
_PICKED = ("CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD")
_SHARED_REFS = ("refs/heads", "refs/tags", "refs/remotes")
_NONE = 1  # git-rev-parse(1) --quiet and git-merge-base(1): there is none; the others asked here never end with it
# Whatever the configuration says: no renames (both names count), submodules as they stand.
_NAMES = ("-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none")


def staged_paths(directory: str = ".") -> list[bytes]:
    """The paths that the commit being made would change against HEAD, from the top of the working tree.

    To be asked in a hook: git names the commit's index in the environment.

    Raises:
        GitFailed: git cannot tell.
    """
    git = partial(own_git, directory=directory)
    asked = ["diff-index", "--cached", *_NAMES]
    try:
        return _split(git([*asked, "HEAD", "--"]))
    except GitFailed:
        if git(["rev-parse", "-q", "--verify", "HEAD"], absent_status=_NONE):
            raise
    # No commit yet: against the tree that holds nothing, which every repository has.
    nothing = git(["hash-object", "-t", "tree", "--stdin"]).decode().strip()
    return _split(git([*asked, nothing, "--"]))


def brought_along(directory: str = ".") -> set[bytes]:
    """The paths that the merge, cherry-pick, revert or rebase under way here brings from history.

    Raises:
        GitFailed: git cannot tell.
    """
    git = partial(own_git, directory=directory, absent_status=_NONE)
    asked = [part for name in ("MERGE_HEAD", *_PICKED) for part in ("--git-path", name)]
    places = [os.fsdecode(place) for place in git(["rev-parse", *asked]).splitlines()]
    merged, *picked = [_commits_in(os.path.join(directory, place)) for place in places]
    found = [_side(git, "HEAD", commit) for commit in merged]
    found += [set(_changed_by(git, commit)) for commits in picked for commit in commits]
    return set().union(*found)


def unleased_in(
    repository: GitDir,
    old: str | None,
    new: str,
    holds: Callable[[bytes], bool],
    *,
    ref: str | None = None,
) -> list[bytes]:
    """The paths authored by the commits that a ref's move from `old` to `new` added, and that `holds` says no to.

    Left out are commits that were there before: what a remote-tracking branch or another ref reaches (fetched,
    merged), and what repeats a commit of the old side (rebased, amended in its message), or does to these paths what
    another commit of the repository did, or its opposite (cherry-picked, reverted). Of a merge only that counts which
    neither side changed. At most the newest `COMMITS_LIMIT` commits are looked at. Blocks.

    Args:
        repository: where both commits are.
        old: commit id before, None or zeros for a new branch.
        new: commit id after; zeros for a deleted branch.
        holds: whether the agent's leases cover a path.
        ref: full name of the ref that moved. Unless it is given, another ref at `new` is taken for a copy of it.

    Raises:
        GitFailed: git cannot tell.
    """
    if not new.strip("0"):
        return []

    git = partial(run_git, repository, timeout_s=_TIMEOUT_S, absent_status=_NONE)
    found: set[bytes] = set()
    added = _added(git, old, new, ref)
    before = _Before(git, frozenset(commit for commit, *_ in added), old)
    for commit, *parents in added:
        authored = {path for path in _authored(git, commit, parents) if not holds(path)}
        if authored and not before.holds_like(commit, authored):
            found |= authored
    return sorted(found)


class _Before(NamedTuple):
    """What a repository holds without the commits that were `added`."""

    git: Git
    added: frozenset[str]
    old: str | None

    def holds_like(self, commit: str, paths: set[bytes]) -> bool:
        """Whether an earlier commit did to these paths what this one does, or its opposite; context does not count."""
        if len(paths) > _PATHS_LIMIT:
            return False
        specs = [":(literal)" + os.fsdecode(path) for path in paths]
        tips = [self.old] if self.old and self.old.strip("0") else []
        listed = self.git(
            ["rev-list", "--all", *tips, f"-{_ALIKE_LIMIT}", "--no-merges", "--", *specs]
        )
        earlier = set(listed.decode().split()) - self.added
        if not earlier:
            return False
        wanted = self._changes({commit}, specs)
        return bool(wanted) and not wanted.isdisjoint(
            self._changes(earlier, specs) | self._changes(earlier, specs, "-R")
        )

    def _changes(self, commits: set[str], specs: list[str], *options: str) -> set[bytes]:
        given = "".join(f"{commit}\n" for commit in commits).encode()
        plain = (
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "--full-index",
            "-U0",
            "--no-prefix",
        )
        asked = ["diff-tree", "--stdin", "--root", "-r", "-p", *plain, *options, "--", *specs]
        ids: bytes = self.git(["patch-id", "--stable"], stdin=self.git(asked, stdin=given))
        return {line.split()[0] for line in ids.splitlines()}


def _added(git: Git, old: str | None, new: str, ref: str | None) -> list[list[str]]:
    """The commits that are new to the repository, each with its parents."""
    asked = ["rev-list", "--parents", f"--max-count={COMMITS_LIMIT}"]
    if old and old.strip("0"):
        asked += ["--right-only", "--cherry-pick", f"{old}...{new}"]
    else:
        asked.append(new)
    found: bytes = git([*asked, "--stdin"], stdin=_others(git, new, ref))
    return [line.split() for line in found.decode().splitlines()]


def _others(git: Git, new: str, ref: str | None) -> bytes:
    """What the other refs of the repository point to, as what `rev-list --stdin` is to leave out."""
    listing: bytes = git(["for-each-ref", "--format=%(objectname) %(refname)", *_SHARED_REFS])
    rows = [os.fsdecode(line).split(" ", 1) for line in listing.splitlines()]
    commits = {commit for commit, name in rows if name != ref and (ref or commit != new)}
    return "".join(f"^{commit}\n" for commit in commits).encode()


def _authored(git: Git, commit: str, parents: list[str]) -> set[bytes]:
    if len(parents) < 2:
        return set(_changed_by(git, commit))
    # Of a merge, `-c` lists what differs from each parent.
    found = set(_split(git(["diff-tree", "-c", "--no-commit-id", *_NAMES, commit, "--"])))
    for parent in parents[1:]:
        found -= _side(git, parents[0], parent)
    return found


def _side(git: Git, ours: str, theirs: str) -> set[bytes]:
    """What `theirs` changed since it parted from `ours`."""
    base = git(["merge-base", ours, theirs]).decode().strip()
    if not base:  # unrelated histories: all that is in it
        return set(_split(git(["ls-tree", "-r", "-z", "--name-only", theirs])))
    return set(_split(git(["diff-tree", *_NAMES, base, theirs, "--"])))


def _changed_by(git: Git, commit: str) -> list[bytes]:
    return _split(git(["diff-tree", "--root", "-m", "--no-commit-id", *_NAMES, commit, "--"]))


def _commits_in(path: str) -> list[str]:
    """The ids in a file such as MERGE_HEAD; none if it is not there (gitrepository-layout(5))."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeError) as error:
        raise GitFailed(f"{path} cannot be read: {error}") from error


def _split(listing: bytes) -> list[bytes]:
    return listing.split(b"\0")[:-1]
