"""Where paths of a working tree stand with git: dirty, clean, committed, pushed, landed.

A path is compared with HEAD by its bytes, mode and kind; what the index says does not count, or partial staging and
a stash would be taken for commits. Each repository of the tree is asked about its own paths. All of it blocks, and runs
git a fixed number of times for each repository, however many paths there are.

A file is read while others may write to it, and HEAD may move meanwhile: the caller asks again when either changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.vcs.at_head import at_head, by_nested
from leasefs.vcs.below import differences_below
from leasefs.vcs.differences import Difference, differences
from leasefs.vcs.head import head_commit
from leasefs.vcs.holding import Holding
from leasefs.vcs.standing import Seen, Standing
from leasefs.vcs.upstream import upstream_of
from leasefs.vcs.worktree import WorkTree, check_path, open_nested, open_repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasefs.vcs.at_head import AtHead
    from leasefs.vcs.gitdir import Around
    from leasefs.vcs.worktree import Repository

__all__ = [
    "Difference",
    "Seen",
    "Standing",
    "WorkTree",
    "dirty_below",
    "heads_of",
    "standings",
    "upstream_of",
]


def standings(
    tree: WorkTree,
    paths: Iterable[bytes],
    seen: Mapping[bytes, Seen],
    *,
    upstream: str | None = None,
) -> dict[bytes, Standing | None]:
    """Where each path stands; None for one that no repository holds.

    Args:
        tree: the working tree; its git directory is looked for anew, so that one which was replaced counts.
        paths: of files, relative to the tree.
        seen: what was known of each path before; one that is not there was never dirty. Commits of a path in a submodule are those of that repository.
        upstream: the configured name of the upstream, for the tree's own repository (see `upstream_of`).

    Raises:
        BadPath: a path leads out of the tree.
        VcsError: git cannot be asked, or `.git` leads nowhere.
    """
    asked = {path: seen.get(path) for path in paths}
    for path in asked:
        check_path(path)
    around = tree.around()
    with open_repository(tree.root_fd, around) as repository:
        if repository is None:
            return _standings(tree.root_fd, None, around, asked, None)
        return _in(repository, asked, upstream)


def dirty_below(tree: WorkTree, prefixes: Iterable[bytes]) -> dict[bytes, Difference]:
    """What differs from HEAD, or is untracked and not ignored, at or below each prefix (b"": everywhere).

    A file that git saw in its present state, by size, mtime and ctime, is not read again.

    Raises:
        BadPath: a prefix leads out of the tree.
        VcsError: git cannot be asked, or `.git` leads nowhere.
    """
    asked = [prefix.removesuffix(b"/") for prefix in prefixes]
    for prefix in filter(None, asked):
        check_path(prefix)
    around = tree.around()
    with open_repository(tree.root_fd, around) as repository:
        return differences_below(tree.root_fd, repository, around, asked)


def heads_of(tree: WorkTree, paths: Iterable[bytes]) -> dict[bytes, str]:
    """The HEAD commit of the repository that each path is in, for a later `Seen`; "" for none. Runs no git.

    Raises:
        BadPath: a path leads out of the tree.
        BadGitFile: the tree's `.git` leads nowhere.
    """
    asked = list(paths)
    for path in asked:
        check_path(path)
    around = tree.around()
    with open_repository(tree.root_fd, around) as repository:
        return _heads(tree.root_fd, repository, around, asked)


def _heads(
    root_fd: int, repository: Repository | None, around: Around, paths: list[bytes]
) -> dict[bytes, str]:
    own, inner = by_nested(root_fd, None, paths)
    heads: dict[bytes, str] = {}
    for directory, below in inner.items():
        with open_nested(root_fd, directory, around) as nested:
            if nested is None:
                own += below
                continue
            cut = len(directory) + 1
            found = _heads(nested.root_fd, nested, around, [path[cut:] for path in below])
        heads |= {directory + b"/" + path: head for path, head in found.items()}
    return heads | dict.fromkeys(own, head_commit(repository.gitdir) if repository else "")


def _in(
    repository: Repository, asked: Mapping[bytes, Seen | None], upstream: str | None
) -> dict[bytes, Standing | None]:
    with at_head(repository) as at:
        return _standings(repository.root_fd, at, repository.around, asked, upstream)


def _standings(
    root_fd: int,
    at: AtHead | None,
    around: Around,
    asked: Mapping[bytes, Seen | None],
    upstream: str | None,
) -> dict[bytes, Standing | None]:
    own, inner = by_nested(root_fd, at, asked)
    answers: dict[bytes, Standing | None] = {}
    for directory, paths in inner.items():
        with open_nested(root_fd, directory, around) as nested:
            if nested is None:
                own += paths
                continue
            cut = len(directory) + 1
            below = _in(nested, {path[cut:]: asked[path] for path in paths}, None)
        answers |= {directory + b"/" + path: standing for path, standing in below.items()}
    if at is None:
        return answers | dict.fromkeys(own)
    return answers | _own(at, {path: asked[path] for path in own}, upstream)


def _own(
    at: AtHead, asked: Mapping[bytes, Seen | None], upstream: str | None
) -> dict[bytes, Standing | None]:
    # Of a repository inside the tree, git's own files came by the mount: they are nobody's work, and in no commit.
    answers: dict[bytes, Standing | None] = dict.fromkeys(asked, Standing())
    asked = {path: seen for path, seen in asked.items() if not path.startswith(b".git/")}
    if not asked:
        return answers
    dirty = differences(at, {path: at.entry(path) for path in asked})
    answers |= {path: Standing(dirty=difference) for path, difference in dirty.items()}
    clean = {path: seen for path, seen in asked.items() if seen and path not in dirty}
    return answers | Holding(at, upstream).standings(clean) if clean else answers
