"""Keep uncommitted paths as a commit that nothing else knows of: `refs/leasefs/rescue/LEASE` (P9).

The index, HEAD, the working tree and the branches are not touched, and none of the repository's filters or hooks runs:
the bytes are kept as they are. The commit's tree is HEAD's with these paths; what a tree cannot hold is in its message.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core.paths import is_normal
from leasefs.vcs.errors import GitFailed, RescueFailed
from leasefs.vcs.objects import EXECUTABLE, GITLINK, SYMLINK, TREE, Entry
from leasefs.vcs.quarantine import quarantine
from leasefs.vcs.rescue_files import Hasher, link_text, look, outermost_absent
from leasefs.vcs.rescue_record import PREFIX, RESCUE_ID, About, KeptPath, Kind, Problem
from leasefs.vcs.rescue_store import store
from leasefs.vcs.rescue_tree import Bases, make_tree
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leasefs.vcs.gitdir import GitDir
    from leasefs.vcs.quarantine import Quarantine

_REGULAR = 0o100644
# What a rescue's id may have less the number that may follow.
_LONGEST_LEASE = 100
_KINDS = {
    stat.S_IFREG: Kind.FILE,
    stat.S_IFLNK: Kind.SYMLINK,
    stat.S_IFDIR: Kind.DIRECTORY,
}
_OTHERS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


@dataclass(frozen=True, slots=True)
class RescueMade:
    """What `snapshot` kept and where.

    `paths` are the given paths that the rescue holds, spelt as they were given, and what HEAD has in the place of one of
    them. `problems` are the others, and those that may not be kept as they were.
    """

    id: str
    ref: str
    commit: str
    paths: tuple[bytes, ...]
    problems: tuple[Problem, ...]
    is_new: bool


def snapshot(
    repository: GitDir,
    root_fd: int,
    paths: Iterable[bytes],
    about: About,
    *,
    shown_at: Sequence[bytes] = (),
) -> RescueMade:
    """Keep what lies at `paths` of the tree open at `root_fd`. Blocks.

    A path that is not there is kept as gone; a directory is kept as itself, without what is in it. The very same
    content again gives the rescue that is there already.

    Args:
        repository: where the objects and the ref go: the tree's own, or one of `bare_repository`.
        root_fd: the tree. Nothing is read but through it.
        paths: relative to the root, at least one; a directory may end in a slash.
        about: whose they are, and why they are kept.
        shown_at: absolute paths at which a mount shows the tree: they are not followed.

    Raises:
        ValueError: `paths` is empty.
        RescueFailed: the repository cannot be written, the disk is full, git is missing or failed. Nothing was kept.
    """
    if not RESCUE_ID.fullmatch(about.lease) or len(about.lease) > _LONGEST_LEASE:
        raise RescueFailed(f"{about.lease!r} is no lease's id, so no rescue can be named after it")
    given = sorted(set(paths))
    if not given:
        raise ValueError("no paths are given, so there is nothing to keep")
    tree = WorkTree(root_fd, tuple(shown_at))
    owner = os.fstat(repository.common_fd)
    try:
        with quarantine(repository.of_clone(), owner) as new:
            return _Snapshot(repository, new, tree, about).make(given)
    except (GitFailed, OSError) as error:
        trouble = f"the uncommitted paths of lease {about.lease} could not be kept: {error}"
        raise RescueFailed(trouble) from error


class _Snapshot:
    """One snapshot in the making."""

    def __init__(self, repository: GitDir, new: Quarantine, tree: WorkTree, about: About) -> None:
        self._repository = repository
        self._new = new
        self._tree = tree
        self._root_fd = tree.root_fd
        self._about = about
        self._hasher = Hasher(new.gitdir, new.owner, new.variables)
        self._problems: dict[bytes, str] = {}

    def make(self, given: Sequence[bytes]) -> RescueMade:
        spelt = {path.removesuffix(b"/"): path for path in given if self._is_fit(path)}
        with Bases(self._repository, self._tree, self._new.owner) as bases:
            head = bases.head
            seen = dict(self._looked_at(bases, spelt))
            self._problems |= bases.problems
        kept = self._kept(seen)
        # Git is started anew for this: reading large files may have taken longer than it is given.
        with Bases(self._repository, self._tree, self._new.owner, head) as bases:
            tree = make_tree(self._new, bases, _changes(kept))
        problems = [Problem(path, why) for path, why in sorted(self._problems.items())]
        made = store(self._new, tree, head, self._about, kept, problems)
        held = {entry.path for entry in kept}
        names = (*(path for path in given if path.removesuffix(b"/") in held), *(held - set(spelt)))
        id_ = made.ref.removeprefix(PREFIX)
        return RescueMade(id_, made.ref, made.commit, names, tuple(problems), made.is_new)

    def _is_fit(self, path: bytes) -> bool:
        name = path.removesuffix(b"/")
        if name and not name.startswith(b"/") and is_normal(name):
            return True
        self._problems[path] = "it is no path of a working tree"
        return False

    def _looked_at(
        self, bases: Bases, spelt: dict[bytes, bytes]
    ) -> Iterator[tuple[bytes, KeptPath]]:
        """The given paths, and what HEAD has instead of them: files in the place of directories, and below files."""
        waiting, known = list(spelt), set(spelt)
        while waiting:
            path = waiting.pop()
            base = bases.of(path)
            others = list(bases.files_above(path))
            entry = self._look(path, base, is_directory=spelt.get(path, path) != path)
            if entry is not None:
                yield path, entry
                if base is not None and base.mode == TREE and entry.kind is not Kind.DIRECTORY:
                    others += bases.files_below(path)
            waiting += [other for other in others if other not in known]
            known.update(others)

    def _look(self, path: bytes, base: Entry | None, *, is_directory: bool) -> KeptPath | None:
        try:
            status = look(self._root_fd, path)
            gone = outermost_absent(self._root_fd, path) if status is None else b""
        except OSError as error:
            self._problems[path] = f"it cannot be looked at: {error.strerror}"
            return None
        if status is not None and stat.S_IFMT(status.st_mode) not in _KINDS:
            what = _OTHERS.get(stat.S_IFMT(status.st_mode), "of an unknown kind")
            self._problems[path] = f"it is {what}, which cannot be kept"
            return None
        kind = Kind.ABSENT if status is None else _KINDS[stat.S_IFMT(status.st_mode)]
        base_mode = base.mode if base else TREE if is_directory and status is None else 0
        return KeptPath(
            path,
            kind,
            mode=status.st_mode if status else 0,
            base=base.blob if base and base.mode != TREE else "",
            base_mode=base_mode,
            gone=gone,
        )

    def _kept(self, seen: dict[bytes, KeptPath]) -> list[KeptPath]:
        """The entries with the objects of their contents, in the order of their paths."""
        files = [path for path, entry in seen.items() if entry.kind is Kind.FILE]
        blobs = self._hasher.files(self._root_fd, files, self._problems)
        texts = self._link_texts(path for path, entry in seen.items() if entry.kind is Kind.SYMLINK)
        links = dict(zip(texts, self._hasher.contents(list(texts.values())), strict=True))
        kept = []
        for path, entry in sorted(seen.items()):
            if path in blobs:
                status = blobs[path].status
                kept.append(_with(entry, blobs[path].id, status.st_mode, status.st_size))
            elif path in links:
                kept.append(_with(entry, links[path], entry.mode, len(texts[path])))
            elif entry.kind in (Kind.DIRECTORY, Kind.ABSENT):
                kept.append(entry)
        return kept

    def _link_texts(self, paths: Iterable[bytes]) -> dict[bytes, bytes]:
        texts = {}
        for path in paths:
            try:
                texts[path] = link_text(self._root_fd, path)
            except OSError as error:
                self._problems[path] = f"it cannot be read: {error.strerror}"
        return texts


def _with(entry: KeptPath, blob: str, mode: int, size: int) -> KeptPath:
    return KeptPath(
        entry.path, entry.kind, mode, size, blob, entry.base, entry.base_mode, entry.gone
    )


def _changes(kept: Iterable[KeptPath]) -> dict[bytes, Entry | None]:
    changes: dict[bytes, Entry | None] = {}
    for entry in kept:
        if entry.kind is Kind.FILE:
            mode = EXECUTABLE if entry.mode & stat.S_IXUSR else _REGULAR
            changes[entry.path] = Entry(mode, entry.blob)
        elif entry.kind is Kind.SYMLINK:
            changes[entry.path] = Entry(SYMLINK, entry.blob)
        elif entry.kind is Kind.ABSENT or entry.base_mode != GITLINK:
            changes[entry.path] = None
    return changes
