"""Which repository and working tree a git command works on, found as git does (setup.c) from the tree's descriptor."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from leasefs.vcs.beneath import open_directory
from leasefs.vcs.errors import BadGitFile
from leasefs.vcs.git_commands.effects import CannotTell
from leasefs.vcs.git_commands.routes import Tree
from leasefs.vcs.gitdir import GitDir, find_git

if TYPE_CHECKING:
    from types import TracebackType

    from leasefs.vcs.git_commands.line import Line
    from leasefs.vcs.git_commands.process import GitProcess

_UNSET = (
    "run git without GIT_DIR, GIT_WORK_TREE, GIT_COMMON_DIR and GIT_INDEX_FILE, inside the tree"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A repository with its working tree, and where in it the command runs.

    `offset`: what precedes its paths in the mounted tree (b"" or b"sub/"); `prefix`: where it runs, below its root;
    `directory`: the same as an absolute path.
    """

    gitdir: GitDir
    tree: Tree
    offset: bytes
    prefix: bytes
    directory: bytes
    resources: ExitStack

    def uses_its_index(self, process: GitProcess) -> bool:
        """Whether the process's index is the one that everybody uses; hooks run with GIT_INDEX_FILE set to that."""
        given = process.environ.get(b"GIT_INDEX_FILE")
        if given is None:
            return True
        git = os.readlink(f"/proc/self/fd/{self.gitdir.fd}".encode())
        usual = {self.tree.seen + b"/.git/index", os.path.join(git, b"index")}
        return self.tree.resolve(self.tree.seen, given) in usual

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.resources.close()


def find_place(
    process: GitProcess, line: Line, gitdir: GitDir | None, root_fd: int
) -> Place | None:
    """Where the command works; None if on no working tree here (outside, or inside a git directory).

    Raises:
        CannotTell: it works on a tree or repository that overlaps this one in a way that is not followed.
    """
    outer = Tree(root_fd, process.root)
    directory = process.cwd
    for step in () if process.arrived else line.chdirs:
        directory = outer.resolve(directory, step)
    if process.environ.keys() & {b"GIT_COMMON_DIR"}:
        raise CannotTell("GIT_COMMON_DIR is set", _UNSET)
    if line.git_dir is not None or line.work_tree is not None:
        return _told(outer, gitdir, line, directory)
    below = outer.below(directory)
    if below is None:
        if outer.seen.startswith(directory.rstrip(b"/") + b"/"):
            raise CannotTell("it works on a repository around this tree", "run it inside the tree")
        return None
    return None if line.bare else _discover(outer, gitdir, below, directory)


def _told(outer: Tree, gitdir: GitDir | None, line: Line, directory: bytes) -> Place | None:
    """GIT_DIR alone makes the working directory the tree; GIT_WORK_TREE alone leaves the repository to be found."""
    git_dir = None if line.git_dir is None else outer.resolve(directory, line.git_dir)
    work_tree = directory if line.work_tree is None else outer.resolve(directory, line.work_tree)
    ours = {outer.seen.rstrip(b"/") + b"/.git"}
    if gitdir is not None:
        ours.add(os.readlink(f"/proc/self/fd/{gitdir.fd}".encode()))
    in_ours = git_dir in ours or (git_dir is None and outer.below(directory) is not None)
    if work_tree == outer.seen and in_ours and gitdir is not None:
        if git_dir is None and _nearest(outer, outer.below(directory) or b"") != b"":
            raise CannotTell("it uses a repository inside this tree on this tree", _UNSET)
        below = outer.below(directory)
        return Place(gitdir, outer, b"", below or b"", directory, ExitStack())
    top = work_tree.rstrip(b"/") + b"/"
    if outer.below(work_tree) is None and not (outer.seen + b"/").startswith(top):
        return None
    raise CannotTell("it uses another repository or working tree on these files", _UNSET)


def _discover(outer: Tree, gitdir: GitDir | None, below: bytes, directory: bytes) -> Place | None:
    at = _nearest(outer, below)
    if at is None:
        return None
    if not at:
        return None if gitdir is None else Place(gitdir, outer, b"", below, directory, ExitStack())
    with ExitStack() as resources:
        try:
            inner_fd = open_directory(outer.root_fd, at)
            resources.callback(os.close, inner_fd)
            found = find_git(inner_fd)
        except (OSError, BadGitFile) as error:
            raise CannotTell(f"the repository in {os.fsdecode(at)!r} cannot be opened") from error
        if found is None:
            raise CannotTell(f"the repository in {os.fsdecode(at)!r} is gone")
        inner = Tree(inner_fd, os.path.join(outer.seen, at))
        kept = ExitStack()
        kept.enter_context(resources.pop_all())
        kept.enter_context(found)
        return Place(found, inner, at + b"/", below[len(at) :].lstrip(b"/"), directory, kept)


def _nearest(outer: Tree, below: bytes) -> bytes | None:
    """The nearest directory upwards with a `.git`, b"" being the root; None inside of a git directory."""
    at = below
    while True:
        if _is_git_directory(outer, at):
            return None
        if not at or outer.kind(at + b"/.git") in {stat.S_IFDIR, stat.S_IFREG}:
            return at
        at = os.path.dirname(at)


def _is_git_directory(outer: Tree, at: bytes) -> bool:
    under = at + b"/" if at else b""
    return (
        outer.kind(under + b"HEAD") in {stat.S_IFREG, stat.S_IFLNK}
        and outer.kind(under + b"refs") == stat.S_IFDIR
        and outer.kind(under + b"objects") in {stat.S_IFDIR, stat.S_IFLNK}
    )
