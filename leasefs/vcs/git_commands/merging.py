"""What a merge of trees would give, worked out by git itself in a directory of its own (git-merge-tree(1)).

New objects go to a temporary directory, from which the repository's can be read. (One that would have been made anew is
marked as used, by its time, as by any git command.) Configured merge drivers are programs, so they are not run: where
there are some, every path that the other side changed counts.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.git_commands.effects import CannotTell
from leasefs.vcs.git_commands.objects import borrow_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.vcs.git_commands.view import Names, View

_RENAMES = ("diff-tree", "-r", "-z", "--name-only", "-M", "--diff-filter=R")
_INDEX_LIMIT_BYTES = 1 << 30
_WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "leasefs"), ("EMAIL", "leasefs"), ("DATE", "@0 +0000"))
}


class Merges:
    """Merges one after the other from the tree `current`; `changed` is every path that one of them changes."""

    def __init__(self, view: View, directory: str, current: str) -> None:
        self._view = view
        self._directory = directory
        self._variables = _WHO | {"GIT_OBJECT_DIRECTORY": f"{directory}/objects"}
        self._drivers = sorted(_drivers(view))
        self.current = current
        self.changed: Names = frozenset()

    def index_tree(self) -> str | None:
        """The tree that the index would make; None while there are conflicts."""
        copy = f"{self._directory}/index"
        try:
            with open("index", "rb", opener=self._in_git) as source, open(copy, "wb") as target:
                target.write(source.read(_INDEX_LIMIT_BYTES))
            os.chown(copy, *_owner(self._directory))
            return self._ask("write-tree", variables={"GIT_INDEX_FILE": copy}).decode().strip()
        except (OSError, GitFailed):
            self._view.left_s()
            return None

    def merge(self, base: str, theirs: str) -> None:
        """Merge tree `theirs` into the current one, both being descendants of tree `base`.

        Raises:
            CannotTell: git cannot say (before 2.39, without renames as a bound), or a conflict makes up names.
        """
        root = self.commit(base)
        ours, other = self.commit(self.current, root), self.commit(theirs, root)
        self.take(base, theirs, ours, other)

    def take(self, base: str | None, theirs: str, ours: str, other: str) -> None:
        """Merge the commits `ours`, whose tree is the current one, and `other`, whose tree is `theirs`."""
        try:
            result, conflicts = self._merge_tree(ours, other)
        except GitFailed as error:
            self._view.left_s()
            if base is None:
                raise CannotTell(f"git cannot say what the merge would change: {error}") from error
            self._bound(base, theirs, error)
            return
        touched = self._between(self.current, result)
        if any(f"~{commit}".encode() in path for path in touched for commit in (ours, other)):
            raise CannotTell("a file and a directory of the same name would be in conflict")
        if self._view.flag(b"core.sparsecheckout"):
            touched |= conflicts  # they are put into the tree although they were left out
        if self._drivers and base is not None:
            touched |= self._between(base, theirs)
        self.changed |= touched
        self.current = result

    def _merge_tree(self, ours: str, other: str) -> tuple[str, Names]:
        """The tree that comes of it, and the paths in conflict."""
        without = [word for name in self._drivers for word in ("-c", f"merge.{name}.driver=true")]
        options = ("-c", "merge.renormalize=false", *without)
        command = ("merge-tree", "--write-tree", "--stdin", "--allow-unrelated-histories")
        said = self._ask(*options, *command, stdin=f"{ours} {other}\n".encode())
        _, tree, *fields = said.split(b"\0")
        conflicts = fields[: fields.index(b"")]
        return tree.decode(), frozenset(entry.partition(b"\t")[2] for entry in conflicts)

    def _bound(self, base: str, theirs: str, error: GitFailed) -> None:
        """Without renames on either side a merge changes what the other side changed, and nothing else."""
        for side in (self.current, theirs):
            if self._ask(*_RENAMES, base, side):
                raise CannotTell(f"git cannot say what the merge would change: {error}") from error
        self.changed |= self._between(base, theirs)

    def commit(self, tree: str, *parents: str) -> str:
        """A new commit of a tree."""
        options = [word for parent in parents for word in ("-p", parent)]
        return self._ask("commit-tree", *options, tree).decode().strip()

    def _between(self, one: str, other: str) -> Names:
        listed = self._ask("diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other)
        return frozenset(listed.split(b"\0")[:-1])

    def _ask(
        self, *arguments: str, stdin: bytes = b"", variables: dict[str, str] | None = None
    ) -> bytes:
        return self._view.ask(
            *arguments, stdin=stdin, variables=self._variables | (variables or {})
        )

    def _in_git(self, name: str, flags: int) -> int:
        return os.open(
            name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._view.place.gitdir.fd
        )


def given_back(view: View, before: str, after: str) -> Names:
    """Local changes on the tree `before` that are taken away and merged into the tree `after`, or one like it.

    Raises:
        CannotTell: some may be given back under another name: the file or its directory is renamed, or in the way.
    """
    changed = view.staged() | view.dirty()
    if not changed:
        return changed
    renames = ("-r", "-z", "-M", "--diff-filter=R", "--name-status", before, after)
    gone = set(view.ask("diff-tree", *renames).split(b"\0")[1:-1:3])
    around = {above for path in view.only_in_index(before) for above in _directories(path)}
    moved = around & {above for path in gone for above in _directories(path)}
    moves = any(_is_empty(view, after, directory) for directory in moved)
    between = view.between(before, after)
    clashes = _clash(changed, between) or not _are_regular(view, after, changed & between)
    own = view.ask("diff-index", "--cached", "-z", "-M", "--diff-filter=R", "--name-only", before)
    if changed & gone or moves or clashes or own:
        raise CannotTell(
            "it gives local changes back among renamed files", "commit or stash them first"
        )
    return changed


def _clash(some: Names, others: Names) -> bool:
    """Whether a path of one is a directory above a path of the other."""
    one, other = (
        {above for path in paths for above in _directories(path)} for paths in (some, others)
    )
    return bool(one & others or other & some)


def _are_regular(view: View, tree: str, paths: Names) -> bool:
    """Whether all of them that are there are regular files, in the working tree and in `tree`."""
    kinds = {view.place.tree.kind(path) for path in paths}
    listed = view.ask("ls-tree", "-z", tree, "--", *paths) if paths else b""
    modes = {entry[:3] for entry in listed.split(b"\0")[:-1]}
    return kinds <= {None, stat.S_IFREG} and modes <= {b"100"}


def _directories(path: bytes) -> set[bytes]:
    parts = path.split(b"/")
    return {b"/".join(parts[:end]) for end in range(len(parts))}


def _is_empty(view: View, tree: str, directory: bytes) -> bool:
    """Whether no file is left there; git then takes the whole directory for renamed."""
    spec = [directory + b"/"] if directory else []
    listed = view.ask("ls-tree", "-z", tree, "--", *spec).split(b"\0")[:-1]
    return not any(entry.split(b" ", 2)[1] == b"blob" for entry in listed)


@contextmanager
def merges(view: View, current: str) -> Iterator[Merges]:
    """Merges into the tree `current`, in a temporary directory that is taken away at the end."""
    with private_directory(view) as directory:
        borrow_objects(view.place.gitdir, f"{directory}/objects")
        give(directory)
        yield Merges(view, directory, current)


@contextmanager
def private_directory(view: View) -> Iterator[str]:
    """A temporary directory that belongs to whom git is run as."""
    with ExitStack() as resources:
        directory = resources.enter_context(tempfile.TemporaryDirectory(prefix="leasefs-git-"))
        if not os.geteuid():
            status = os.fstat(view.place.gitdir.fd)
            os.chown(directory, status.st_uid, status.st_gid)
        yield directory


def give(directory: str) -> None:
    """Everything below belongs to whom `directory` belongs."""
    if os.geteuid():
        return
    owner = _owner(directory)
    for at, directories, files in os.walk(directory):
        for name in (*directories, *files):
            os.chown(f"{at}/{name}", *owner, follow_symlinks=False)


def _owner(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_uid, status.st_gid


def _drivers(view: View) -> set[str]:
    start, end = b"merge.", b".driver"
    return {
        os.fsdecode(key[len(start) : -len(end)])
        for key in view.config
        if key.startswith(start) and key.endswith(end)
    }
