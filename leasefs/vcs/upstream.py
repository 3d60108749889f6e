"""The ref on which a territory's work lands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from leasefs.vcs.plumbing import run_git

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir

_ORIGIN = "refs/remotes/origin/HEAD"
_ABSENT = 1  # git-symbolic-ref(1), -q: not a symbolic ref
# git-check-ref-format(1), as far as a name could be taken for something else on a command line or in a request
_NAME = re.compile(r"(?!-)[^\x00-\x20\x7f~^:?*\[\\]+")


def upstream_of(gitdir: GitDir, configured: str | None = None) -> str | None:
    """The whole name of the upstream ref; None if there is none.

    `configured` is the project's word: a whole ref, a remote's branch (`origin/main`) or a local branch. It counts
    although no such ref is there yet: nothing has landed then. Otherwise it is the default branch of `origin`, or
    what HEAD's branch follows.

    Raises:
        GitFailed: git cannot be asked.
    """
    if configured:
        return _configured(gitdir, configured)
    default = _symbolic(gitdir, _ORIGIN)
    if default and _exist(gitdir, [default]):
        return default
    branch = _symbolic(gitdir, "HEAD")
    if not branch:
        return None
    followed = run_git(gitdir, ["for-each-ref", "--format=%(refname) %(upstream)", branch])
    for line in followed.decode(errors="surrogateescape").splitlines():
        name, _, upstream = line.partition(" ")
        if name == branch and upstream:
            return upstream
    return None


def _configured(gitdir: GitDir, name: str) -> str:
    if not _NAME.fullmatch(name):
        return f"refs/remotes/{name}"  # no ref can be called so, hence nothing lands
    if name.startswith("refs/"):
        return name
    candidates = [f"refs/remotes/{name}", f"refs/heads/{name}"]
    there = _exist(gitdir, candidates)
    return next((one for one in candidates if one in there), candidates[0])


def _symbolic(gitdir: GitDir, name: str) -> str:
    output = run_git(gitdir, ["symbolic-ref", "-q", name], absent_status=_ABSENT)
    return output.decode(errors="surrogateescape").removesuffix("\n")


def _exist(gitdir: GitDir, names: list[str]) -> set[str]:
    output = run_git(gitdir, ["for-each-ref", "--format=%(refname)", *names])
    return set(output.decode(errors="surrogateescape").splitlines()).intersection(names)
