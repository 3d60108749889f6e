"""How paths of one repository's working tree differ from HEAD, by bytes, mode and kind."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING

from leasefs.vcs.compare import Comparison, read_settings
from leasefs.vcs.errors import GitFailed
from leasefs.vcs.head import head_commit
from leasefs.vcs.objects import GITLINK, SYMLINK, TREE
from leasefs.vcs.plumbing import run_git
from leasefs.vcs.tree_files import (
    Kind,
    Looker,
    is_executable,
    is_link_to,
    kind_of,
    wants_executable,
)
from leasefs.vcs.worktree import open_nested

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasefs.vcs.at_head import AtHead
    from leasefs.vcs.objects import Entry
    from leasefs.vcs.worktree import Repository

# With more names the whole index costs less than matching them.
_NAMES = 100


class Difference(StrEnum):
    """In what a path differs from HEAD."""

    UNTRACKED = "untracked"  # HEAD does not have it, whether the index does or not
    MODIFIED = "modified"
    DELETED = "deleted"
    MODE = "mode"
    TYPE = "type"  # a file where HEAD has a symbolic link or a directory, and the like


def differences(at: AtHead, entries: Mapping[bytes, Entry | None]) -> dict[bytes, Difference]:
    """Those paths that differ from the `entries` that HEAD has for them; a TREE counts as nothing to compare with.

    A path that a sparse checkout leaves out does not differ. What changes while it is read does.

    Raises:
        GitFailed: git cannot be asked.
    """
    try:
        return _Differences(at).run(entries)
    except OSError as error:
        raise GitFailed(f"the working tree cannot be read: {error}") from error


class _Differences:
    def __init__(self, at: AtHead) -> None:
        self._repository = at.repository
        self._settings = read_settings(at.repository)
        self._comparison = Comparison(at.repository, at.objects, self._settings)
        self._files: dict[bytes, Entry] = {}
        self._absent: list[bytes] = []
        self._found: dict[bytes, Difference] = {}

    def run(self, entries: Mapping[bytes, Entry | None]) -> dict[bytes, Difference]:
        modes: dict[bytes, bool] = {}
        with Looker(self._repository.root_fd) as looker:
            for path in sorted(entries):
                status = looker.look(path)
                difference = self._first_look(path, entries[path], kind_of(status))
                if difference:
                    self._found[path] = difference
                elif status:
                    modes[path] = is_executable(status)
        self._comparison.run(self._files)
        for path, entry in self._files.items():
            if path not in self._comparison.equal:
                self._found[path] = Difference.MODIFIED
            elif self._minds_mode(entry) and modes[path] != wants_executable(entry):
                self._found[path] = Difference.MODE
        for path in set(self._absent) - skipped(self._repository, self._absent):
            self._found[path] = Difference.DELETED
        return self._found

    def _minds_mode(self, entry: Entry) -> bool:
        """A symbolic link that is kept as a plain file has no mode of its own."""
        return self._settings.file_mode and entry.mode != SYMLINK

    def _first_look(self, path: bytes, entry: Entry | None, kind: Kind) -> Difference | None:
        """What can be said without the content; files and absent ones are kept for later."""
        if entry is None or entry.mode == TREE:
            if kind in (Kind.FILE, Kind.SYMLINK):
                return Difference.TYPE if entry else Difference.UNTRACKED
            return None
        if kind is Kind.ABSENT:
            self._absent.append(path)
            return None
        if entry.mode == GITLINK:
            return self._gitlink(path, entry, kind)
        if entry.mode == SYMLINK and kind is Kind.SYMLINK:
            same = is_link_to(self._repository.root_fd, path, entry.blob)
            return None if same else Difference.MODIFIED
        as_file = entry.mode != SYMLINK or not self._settings.symlinks
        if kind is not Kind.FILE or not as_file:
            return Difference.TYPE
        self._files[path] = entry
        return None

    def _gitlink(self, path: bytes, entry: Entry, kind: Kind) -> Difference | None:
        """A submodule that is not checked out is an empty directory, which git takes as it is."""
        if kind is not Kind.DIRECTORY:
            return Difference.TYPE
        around = self._repository.around
        with open_nested(self._repository.root_fd, path, around) as inner:
            if inner is None or head_commit(inner.gitdir) in ("", entry.blob):
                return None
        return Difference.MODIFIED


def skipped(repository: Repository, paths: Iterable[bytes]) -> set[bytes]:
    """Those of `paths` that a sparse checkout leaves out of the tree (git-update-index(1), skip-worktree).

    Raises:
        GitFailed: the index cannot be read.
    """
    asked = set(paths)
    if not asked:
        return set()
    names = [os.fsdecode(path) for path in asked] if len(asked) <= _NAMES else []
    listing = run_git(
        repository.gitdir,
        ["--literal-pathspecs", "ls-files", "-t", "-z", "--", *names],
        owner=repository.owner,
    )
    left_out = {record[2:] for record in listing.split(b"\0") if record.startswith(b"S ")}
    return asked & left_out
