"""Put a rescue's paths back into a tree, byte for byte, with ordinary calls: in a mount, leases decide as always.

Nothing is touched before everything was looked at. A path may be replaced if it is as the rescue has it already, or as
it was in the HEAD that the rescue was made at; anything else is somebody's work since then, or a commit's.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core.paths import ancestors, is_normal, shown
from leasefs.vcs.errors import GitFailed, NoSuchRescue, RestoreRefused, RestoreStopped, VcsError
from leasefs.vcs.objects import TREE
from leasefs.vcs.rescue_files import Hasher, link_text, look
from leasefs.vcs.rescue_record import KeptPath, Kind
from leasefs.vcs.rescue_store import read
from leasefs.vcs.rescue_writing import Writer, files_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leasefs.vcs.gitdir import GitDir

# What is git's own, or the mount's: a crafted rescue must not bring hooks along.
_CLOSED = frozenset({b".git", b".leasefs"})
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Restored:
    """What `restore` changed, and what was as in the rescue already."""

    changed: tuple[bytes, ...]
    unchanged: tuple[bytes, ...]


def restore(
    repository: GitDir,
    rescue_id: str,
    target_root_fd: int,
    paths: Iterable[bytes] | None = None,
    *,
    overwrite: bool = False,
) -> Restored:
    """Write a rescue's paths to the tree at `target_root_fd`. Blocks; follows no link.

    Args:
        repository: where the rescue is.
        rescue_id: which one.
        target_root_fd: the tree's root; a mountpoint, for it to be written under leases.
        paths: only these, and what lies below them; all if None.
        overwrite: also replace what is neither as in the rescue nor as before it.

    Raises:
        NoSuchRescue: no such rescue, or it does not hold one of `paths`.
        RestoreRefused: a path has other content, or something that the rescue does not know stands in the way.
        RestoreStopped: a path could not be written; the message says which, and how many were before it.
        GitFailed: the repository cannot be read.
    """
    rescue = read(repository, rescue_id)
    entries = _selected(rescue.paths, rescue_id, paths)
    hasher = Hasher(repository, os.fstat(repository.common_fd))
    now = _Now(target_root_fd, entries, hasher)
    _refuse(rescue_id, now, overwrite=overwrite)
    changing = [entry for entry in entries if not now.is_as_kept(entry)]
    writer = Writer(repository, target_root_fd)
    try:
        writer.write(changing)
    except (OSError, GitFailed) as error:
        trouble = error.strerror if isinstance(error, OSError) else error
        raise RestoreStopped(
            f"rescue {rescue_id}: {shown(writer.at)} cannot be written: {trouble} "
            f"(`leasefs why` says who holds it); {writer.done} steps were done before it, and doing it again is safe"
        ) from error
    as_before = {entry.path for entry in changing}
    return Restored(
        tuple(entry.path for entry in changing),
        tuple(entry.path for entry in entries if entry.path not in as_before),
    )


def compared(
    repository: GitDir, rescue_id: str, root_fd: int
) -> tuple[list[KeptPath], list[KeptPath]]:
    """The paths of a rescue that are in this tree as they were kept, and those that are not. Blocks.

    Raises:
        NoSuchRescue: no such rescue.
        GitFailed, OSError: the repository or the tree cannot be read.
    """
    entries = read(repository, rescue_id).paths
    now = _Now(root_fd, entries, Hasher(repository, os.fstat(repository.common_fd)))
    same = [entry for entry in entries if now.is_as_kept(entry)]
    return same, [entry for entry in entries if not now.is_as_kept(entry)]


def _selected(
    entries: Sequence[KeptPath], rescue_id: str, paths: Iterable[bytes] | None
) -> list[KeptPath]:
    """The entries asked for, and the directories on the way to them that HEAD has as files."""
    for entry in entries:
        if (
            not is_normal(entry.path)
            or entry.path.startswith(b"/")
            or entry.path.partition(b"/")[0] in _CLOSED | {b""}
        ):
            raise RestoreRefused(
                f"rescue {rescue_id} names {shown(entry.path)!r}, which is never written; nothing was touched"
            )
    # What was made and removed again leaves nothing to put back.
    entries = [entry for entry in entries if entry.kind is not Kind.ABSENT or entry.base_mode]
    if paths is None:
        return entries
    chosen: set[bytes] = set()
    for path in paths:
        wanted = path.rstrip(b"/")
        below = {e.path for e in entries if e.path == wanted or e.path.startswith(wanted + b"/")}
        if not below:
            raise NoSuchRescue(
                f"rescue {rescue_id} holds nothing at {shown(path)}; `leasefs rescue show {rescue_id}` lists "
                "what it holds"
            )
        chosen |= below | set(ancestors(wanted))
    return [entry for entry in entries if entry.path in chosen]


def _refuse(rescue_id: str, now: _Now, *, overwrite: bool) -> None:
    blocked = dict(now.blocked())
    other = {} if overwrite else dict(now.other_content())
    wrong = blocked | other
    if not wrong:
        return
    named = "; ".join(f"{shown(path)} {why}" for path, why in sorted(wrong.items())[:_NAMED])
    more = f"; and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    advice = (
        "move it away first"
        if blocked
        else "commit or move away what is there, name other paths, or give --overwrite to lose it"
    )
    raise RestoreRefused(
        f"rescue {rescue_id} was not put back, and nothing was touched: {named}{more}; {advice}"
    )


class _Now:
    """What lies in the target where the entries are to go."""

    def __init__(self, root_fd: int, entries: Sequence[KeptPath], hasher: Hasher) -> None:
        self._root_fd = root_fd
        self._hasher = hasher
        self._entries = {entry.path: entry for entry in entries}
        self._there: dict[bytes, os.stat_result] = {}
        self._trouble: dict[bytes, str] = {}
        for entry in entries:
            try:
                status = look(root_fd, entry.path)
            except OSError as error:
                self._trouble[entry.path] = f"cannot be looked at: {error.strerror}"
                continue
            if status is not None:
                self._there[entry.path] = status
        self._ids = self._read()

    def _read(self) -> dict[bytes, str]:
        files = [path for path, status in self._there.items() if stat.S_ISREG(status.st_mode)]
        problems: dict[bytes, str] = {}
        ids = {p: b.id for p, b in self._hasher.files(self._root_fd, files, problems).items()}
        links = [path for path, status in self._there.items() if stat.S_ISLNK(status.st_mode)]
        texts = [link_text(self._root_fd, path) for path in links]
        return ids | dict(zip(links, self._hasher.contents(texts), strict=True))

    def is_as_kept(self, entry: KeptPath) -> bool:
        """Whether nothing is to be done, the permissions included."""
        status = self._there.get(entry.path)
        if status is None:
            return entry.kind is Kind.ABSENT
        if entry.kind is Kind.ABSENT or stat.S_IFMT(status.st_mode) != stat.S_IFMT(entry.mode):
            return False
        if entry.kind is Kind.SYMLINK:
            return self._ids.get(entry.path) == entry.blob
        same = stat.S_IMODE(status.st_mode) == entry.permissions
        return same and (entry.kind is Kind.DIRECTORY or self._ids.get(entry.path) == entry.blob)

    def other_content(self) -> Iterator[tuple[bytes, str]]:
        """Paths with content that is neither the rescue's nor its base's."""
        for path, status in self._there.items():
            entry = self._entries[path]
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFDIR or (entry.kind is Kind.ABSENT and entry.base_mode == TREE):
                continue
            found = self._ids.get(path)
            if found is not None and kind == stat.S_IFMT(entry.mode) and found == entry.blob:
                continue
            is_of_base = found is not None and kind == stat.S_IFMT(entry.base_mode)
            if is_of_base and (found == entry.base or self._as_committed(entry, kind)):
                continue
            what = "has other content by now" if entry.base_mode else "has been made since"
            yield path, what

    def _as_committed(self, entry: KeptPath, kind: int) -> bool:
        """Whether git would commit the file as its base: it may have other line ends, or be stored elsewhere."""
        if kind != stat.S_IFREG:
            return False
        try:
            return self._hasher.filtered(self._root_fd, entry.path) == entry.base
        except (OSError, VcsError):
            return False  # git does not take it, so it is not as git has it

    def blocked(self) -> Iterator[tuple[bytes, str]]:
        """What stands in the way and is none of the rescue's paths, or cannot be looked at."""
        yield from self._trouble.items()
        checked: set[bytes] = set()
        for entry in self._entries.values():
            for above in ancestors(entry.path) if entry.kind is not Kind.ABSENT else ():
                if above and above not in checked and above not in self._entries:
                    checked.add(above)
                    status = look(self._root_fd, above)
                    if status is not None and not stat.S_ISDIR(status.st_mode):
                        yield above, "is in the way: it is no directory"
            status = self._there.get(entry.path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                yield from self._left_in(entry)

    def _left_in(self, entry: KeptPath) -> Iterator[tuple[bytes, str]]:
        """What would be lost with a directory in the place of a file; directories alone are nothing to lose."""
        if entry.kind is Kind.DIRECTORY or (entry.kind is Kind.ABSENT and entry.base_mode == TREE):
            return
        for found in files_below(self._root_fd, entry.path):
            known = self._entries.get(found)
            if known is None or known.kind is not Kind.ABSENT:
                yield found, f"is in the way of {shown(entry.path)}"
                return
