"""Everything at or below some directories that differs from HEAD."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.vcs.at_head import at_head, by_nested
from leasefs.vcs.differences import Difference, differences
from leasefs.vcs.index_file import read_index
from leasefs.vcs.objects import GITLINK, Entry
from leasefs.vcs.plumbing import run_git
from leasefs.vcs.tree_files import Kind, Looker, is_executable, kind_of, wants_executable
from leasefs.vcs.worktree import open_nested

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasefs.vcs.at_head import AtHead
    from leasefs.vcs.gitdir import Around
    from leasefs.vcs.worktree import Repository

# Beyond this, git lists everything, and what is not asked for is left out here.
_NAMES = 100
_NAMES_BYTES = 64_000


def differences_below(
    root_fd: int, repository: Repository | None, around: Around, prefixes: Iterable[bytes]
) -> dict[bytes, Difference]:
    """Those of `repository` and of the repositories inside it; see `reconcile.dirty_below`."""
    if repository is None:
        return _of_nested(root_fd, around, by_nested(root_fd, None, prefixes, themselves=True)[1])
    with at_head(repository) as at:
        own, inner = by_nested(root_fd, at, prefixes, themselves=True)
        found = _of_nested(root_fd, around, inner)
        if own:
            entries, repositories = _candidates(at, own)
            found |= differences(at, _not_just_seen(at, entries))
            found |= _of_nested(root_fd, around, {path: [path] for path in repositories})
        return found


def _of_nested(
    root_fd: int, around: Around, inner: Mapping[bytes, list[bytes]]
) -> dict[bytes, Difference]:
    found: dict[bytes, Difference] = {}
    for directory, prefixes in inner.items():
        with open_nested(root_fd, directory, around) as nested:
            if nested is None:
                continue
            below = differences_below(
                nested.root_fd, nested, around, [path[len(directory) + 1 :] for path in prefixes]
            )
        found |= {directory + b"/" + path: difference for path, difference in below.items()}
    return found


def _candidates(at: AtHead, prefixes: list[bytes]) -> tuple[dict[bytes, Entry | None], list[bytes]]:
    """What could differ, with what HEAD has there, and the directories that may be repositories."""
    listed = _Listed(at.repository, prefixes)
    entries: dict[bytes, Entry | None] = {}
    untracked = listed.ask(["ls-files", "-o", "--exclude-standard"], in_tree=True)
    entries |= dict.fromkeys(path for path in untracked if not path.endswith(b"/"))
    entries |= dict.fromkeys(listed.ask(["ls-files"]))
    tree = ["ls-tree", "-r", "--full-tree", at.commit]
    for record in listed.ask(tree) if at.commit else ():
        head, _, path = record.partition(b"\t")
        mode, _, blob = head.decode().split(" ")
        entries[path] = Entry(int(mode, 8), blob)
    repositories = [path.removesuffix(b"/") for path in untracked if path.endswith(b"/")]
    repositories += [path for path, entry in entries.items() if entry and entry.mode == GITLINK]
    return entries, repositories


class _Listed:
    """Lists that git makes of what lies at or below some prefixes."""

    def __init__(self, repository: Repository, prefixes: list[bytes]) -> None:
        self._repository = repository
        self._prefixes = prefixes
        few = len(prefixes) <= _NAMES and sum(map(len, prefixes)) <= _NAMES_BYTES
        self._names = [os.fsdecode(path) for path in prefixes] if few and all(prefixes) else []

    def ask(self, arguments: list[str], *, in_tree: bool = False) -> list[bytes]:
        output = run_git(
            self._repository.gitdir,
            ["--literal-pathspecs", *arguments, "-z", "--", *self._names],
            owner=self._repository.owner,
            tree_fd=self._repository.root_fd if in_tree else None,
        )
        records = output.split(b"\0")[:-1]
        if self._names or not all(self._prefixes):
            return records
        wanted = set(self._prefixes)
        if arguments[0] == "ls-tree":
            return [one for one in records if _is_below(one.partition(b"\t")[2], wanted)]
        return [one for one in records if _is_below(one.rstrip(b"/"), wanted)]


def _is_below(path: bytes, prefixes: set[bytes]) -> bool:
    while path and path not in prefixes:
        path = path.rpartition(b"/")[0]
    return bool(path)


def _not_just_seen(at: AtHead, entries: Mapping[bytes, Entry | None]) -> dict[bytes, Entry | None]:
    """Without the files that git saw as they are now, and as HEAD has them."""
    index = read_index(at.repository.gitdir, entries.__contains__)
    left = dict(entries)
    with Looker(at.repository.root_fd) as looker:
        for path, seen in index.entries.items():
            entry = entries[path]
            if entry is None or seen.blob != entry.blob:
                continue
            status = looker.look(path)
            if status is None or kind_of(status) is not Kind.FILE:
                continue
            same_mode = is_executable(status) == wants_executable(entry)
            if same_mode and seen.stands_for(status, index.written_ns):
                del left[path]
    return left
