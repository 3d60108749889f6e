"""What HEAD has at the paths of a rescue, and the tree of the rescue: HEAD's, with these paths as they are.

Trees are read by `git cat-file` and made by `git mktree`: no index is needed, and of a large repository only the
directories that change are touched.
"""

from __future__ import annotations

import re
import stat
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from leasefs.core.paths import ancestors
from leasefs.vcs.errors import GitFailed, VcsError
from leasefs.vcs.head import head_commit
from leasefs.vcs.objects import GITLINK, TREE, Entry, Objects, parse_tree
from leasefs.vcs.plumbing import run_git
from leasefs.vcs.worktree import NestedRoots, WorkTree, open_nested

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from leasefs.vcs.gitdir import GitDir
    from leasefs.vcs.quarantine import Quarantine

#: a directory at the root of a rescue's tree for what git takes at no name of its own
ASIDE = b".leasefs-rescue"

# Names that `git fsck` warns of, because other file systems take them for `.git` (is_hfs_dotgit, is_ntfs_dotgit).
_LIKE_GIT = re.compile(rb"(?:\.git(?:[ .:\\].*)?|git~[0-9].*)\Z", re.DOTALL | re.IGNORECASE)
# The same for `.gitmodules` and its like, which must not be links or directories (is_ntfs_dotgitmodules and following).
_LIKE_GIT_FILE = re.compile(rb"(?:\.git|gi[0-9a-z]*~[0-9]).*", re.DOTALL | re.IGNORECASE)
# Files whose content is looked at as well.
_READ_BY_FSCK = re.compile(
    rb"(?:\.git(?:modules|attributes)|gi[0-9a-z]*~[0-9]).*", re.DOTALL | re.IGNORECASE
)
# Code points that HFS+ ignores in a name (utf8.c).
_IGNORED = re.compile(
    rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf",
)


class _Base(NamedTuple):
    """A commit, or none (""), and the objects of its repository."""

    objects: Objects
    commit: str


class Bases:
    """What is committed at a path: in the tree's own repository, or in one that lies inside it (a context manager)."""

    def __init__(
        self, gitdir: GitDir, tree: WorkTree, owner: os.stat_result, head: str | None = None
    ) -> None:
        """Start git; GitFailed if it is not installed. `head` is a commit that takes HEAD's place, "" for none."""
        self._resources = ExitStack()
        self._gitdir = gitdir
        self._owner = owner
        self._tree = tree
        self._nested = NestedRoots(tree.root_fd)
        self._known: dict[bytes, _Base | None] = {}
        #: what could not be asked, and why
        self.problems: dict[bytes, str] = {}
        self.objects = self._resources.enter_context(Objects(gitdir.of_clone(), owner))
        self.head = self._head() if head is None else head
        self._own = _Base(self.objects, self.head)

    def _head(self) -> str:
        try:
            return _commit_of_head(self._gitdir, self._owner, self.objects)
        except VcsError as error:
            self.problems[b""] = f"HEAD cannot be read, so what was before is not known: {error}"
            return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def of(self, path: bytes) -> Entry | None:
        """What is committed at `path`: a file, a link, a submodule or a directory."""
        base, inner = self._where(path)
        if base is None or not base.commit:
            return None
        try:
            return base.objects.entry(base.commit, inner)
        except VcsError as error:
            self.problems[path] = f"what HEAD has there cannot be read: {error}"
            return None

    def files_above(self, path: bytes) -> Iterator[bytes]:
        """Ancestors of `path` that are committed as files or links."""
        for above in ancestors(path):
            entry = self.of(above) if above else None
            if entry is not None and entry.mode not in (TREE, GITLINK):
                yield above

    def files_below(self, path: bytes) -> Iterator[bytes]:
        """Files and links committed below `path`."""
        entry = self.of(path)
        base, _ = self._where(path)
        waiting = [(path, entry)]
        while waiting and base is not None:
            above, entry = waiting.pop()
            if entry is None or entry.mode != TREE:
                continue
            for name, below in self._listed(base.objects, above, entry.blob).items():
                if below.mode == TREE:
                    waiting.append((above + b"/" + name, below))
                elif below.mode != GITLINK:
                    yield above + b"/" + name

    def directory(self, path: bytes) -> dict[bytes, Entry]:
        """What HEAD of the tree's own repository has in a directory (b"" is the root)."""
        if not self.head:
            return {}
        if not path:
            return self._listed(self.objects, path, f"{self.head}^{{tree}}")
        try:
            entry = self.objects.entry(self.head, path)
        except VcsError:
            entry = None  # `of` has told of it
        if entry is None or entry.mode != TREE:
            return {}
        return self._listed(self.objects, path, entry.blob)

    def _listed(self, objects: Objects, directory: bytes, tree: str) -> dict[bytes, Entry]:
        """A tree's entries. One that is missing, as in a partial clone, must not keep the work from being kept."""
        try:
            content = objects.content(tree)
        except VcsError as error:
            self.problems[directory] = f"what HEAD has there cannot be read: {error}"
            return {}
        return parse_tree(content, len(self.head or tree) // 2)

    def _where(self, path: bytes) -> tuple[_Base | None, bytes]:
        """The innermost repository that `path` is in, and the path there."""
        nested = list(self._nested.above(path))
        if not nested:
            return self._own, path
        inside = nested[-1]
        if inside not in self._known:
            self._known[inside] = self._open(inside)
        return self._known[inside], path[len(inside) + 1 :]

    def _open(self, inside: bytes) -> _Base | None:
        try:
            around = self._tree.around()
            repository = self._resources.enter_context(
                open_nested(self._tree.root_fd, inside, around)
            )
            if repository is None:
                return None
            gitdir, owner = repository.gitdir, repository.owner
            objects = self._resources.enter_context(Objects(gitdir.of_clone(), owner))
            return _Base(objects, _commit_of_head(gitdir, owner, objects))
        except VcsError as error:
            self.problems[inside] = f"the repository there cannot be read: {error}"
            return None


def _commit_of_head(gitdir: GitDir, owner: os.stat_result, objects: Objects) -> str:
    """The commit that HEAD names, "" if none yet; GitFailed if it cannot be read."""
    head = head_commit(gitdir)
    if not head:
        with Objects(gitdir, owner) as own:
            return own.commit("HEAD")
    if not objects.commit(head):
        raise GitFailed(f"commit {head} is missing in the repository")
    return head


def is_strange(path: bytes, mode: int) -> bool:
    """Whether `git fsck` would complain of a tree that has `path`."""
    names = [_IGNORED.sub(b"", name) for name in path.split(b"/")]
    parts = [part for name in names for part in (name, *name.split(b"\\"))]
    if any(_LIKE_GIT.match(part) for part in parts):
        return True
    if any(_LIKE_GIT_FILE.match(name) for name in names[:-1]):
        return True
    like = _LIKE_GIT_FILE if stat.S_ISLNK(mode) else _READ_BY_FSCK
    return like.match(names[-1]) is not None


def make_tree(new: Quarantine, bases: Bases, changes: Mapping[bytes, Entry | None]) -> str:
    """The id of a tree: HEAD's, with an entry put or removed (None) at each path. Writes it and what it needs.

    Raises:
        GitFailed: objects cannot be read or written.
    """
    directories = _by_directory(_placed(changes, bases))
    trees: dict[bytes, dict[bytes, str]] = {}
    root = ""
    for depth in sorted({_depth(directory) for directory in directories}, reverse=True):
        level = [directory for directory in directories if _depth(directory) == depth]
        contents = {}
        for directory in level:
            below = trees.get(directory, {})
            contents[directory] = _content(bases, directory, directories[directory], below)
        for directory, root in _written(new, contents).items():
            above, _, name = directory.rpartition(b"/")
            if directory:
                trees.setdefault(above, {})[name] = root
    return root


def _written(new: Quarantine, contents: Mapping[bytes, dict[bytes, Entry]]) -> dict[bytes, str]:
    """The ids of trees, "" for an empty one below the root, which git has no use for."""
    needed = [directory for directory, entries in contents.items() if entries or not directory]
    request = b"".join(
        b"".join(map(_line, contents[directory].items())) + b"\0" for directory in needed
    )
    arguments = ["mktree", "-z", "--missing", "--batch"]
    said = run_git(new.gitdir, arguments, owner=new.owner, stdin=request, variables=new.variables)
    return dict.fromkeys(contents, "") | dict(zip(needed, said.decode().split(), strict=True))


def _placed(changes: Mapping[bytes, Entry | None], bases: Bases) -> dict[bytes, Entry | None]:
    """The changes, with what cannot stand at its own name put aside under a number."""
    aside = ASIDE
    taken = {path.partition(b"/")[0] for path in changes} | bases.directory(b"").keys()
    while aside in taken:
        aside += b"_"
    put = {path for path, entry in changes.items() if entry is not None}
    placed: dict[bytes, Entry | None] = {}
    for number, (path, entry) in enumerate(changes.items()):
        if entry is None:
            placed[path] = None
        elif is_strange(path, entry.mode) or any(above in put for above in ancestors(path)):
            placed[aside + b"/%d" % number] = entry
        else:
            placed[path] = entry
    return placed


def _by_directory(
    changes: Mapping[bytes, Entry | None],
) -> dict[bytes, dict[bytes, Entry | None]]:
    """For each directory that changes, and all above it, the changed names in it."""
    directories: dict[bytes, dict[bytes, Entry | None]] = {b"": {}}
    for path, entry in changes.items():
        for above in ancestors(path):
            directories.setdefault(above, {})
        directory, _, name = path.rpartition(b"/")
        directories[directory][name] = entry
    return directories


def _content(
    bases: Bases,
    directory: bytes,
    changes: Mapping[bytes, Entry | None],
    trees: Mapping[bytes, str],
) -> dict[bytes, Entry]:
    """The entries of a directory's new tree; `trees` are those below it, "" for an empty one, which git cannot hold."""
    entries = bases.directory(directory)
    for name, entry in changes.items():
        if entry is not None:
            entries[name] = entry
        elif name in entries and entries[name].mode != TREE:
            del entries[name]
    for name, tree in trees.items():
        if tree:
            entries[name] = Entry(TREE, tree)
        elif name in entries and entries[name].mode == TREE:
            del entries[name]
    return entries


def _depth(directory: bytes) -> int:
    return directory.count(b"/") + 1 if directory else 0


def _line(entry: tuple[bytes, Entry]) -> bytes:
    name, (mode, id_) = entry
    kind = b"tree" if mode == TREE else b"commit" if mode == GITLINK else b"blob"
    return b"%06o %s %s\t%s\0" % (mode, kind, id_.encode(), name)
