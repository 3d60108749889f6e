"""Which commit holds a path that equals HEAD, and how far that commit has come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leasefs.vcs.history import Sought, setters, unreached
from leasefs.vcs.objects import TREE, is_id
from leasefs.vcs.standing import Standing
from leasefs.vcs.upstream import upstream_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasefs.vcs.at_head import AtHead
    from leasefs.vcs.objects import Entry
    from leasefs.vcs.standing import Seen

# What is only reachable from these is no history of anybody's work: a stash's parents, our own snapshots.
_ANY_REF = ("--exclude=refs/stash", "--exclude=refs/leasefs/*", "--all")


@dataclass(frozen=True, slots=True)
class _Held:
    """What a commit has at a path; `entry` None with a `blob` if the commit itself is not there any more."""

    commit: str
    entry: Entry | None
    blob: str

    def is_in(self, entry: Entry | None) -> bool:
        """Whether another commit's entry says the same."""
        if self.entry is None and self.blob:
            return entry is not None and entry.blob == self.blob
        return entry == self.entry


class Holding:
    """Answers for the paths of one repository that are clean."""

    def __init__(self, at: AtHead, upstream: str | None) -> None:
        self._at = at
        self._objects = at.objects
        self._repository = at.repository
        self._upstream = upstream_of(at.repository.gitdir, upstream)
        self._there: dict[str, bool] = {}

    def standings(self, seen: Mapping[bytes, Seen]) -> dict[bytes, Standing | None]:
        """Where each clean path stands.

        Raises:
            GitFailed: git cannot be asked, or an object is missing.
        """
        answers: dict[bytes, Standing | None] = dict.fromkeys(seen, Standing())
        held = self._held_before({path: one for path, one in seen.items() if one.blob is not None})
        for path in [path for path, one in held.items() if not one.commit]:
            del held[path]
            answers[path] = Standing(dropped=True)
        first = {path: one for path, one in seen.items() if one.blob is None}
        held |= self._held_now(first)
        return answers | self._far(held)

    def _held_now(self, seen: Mapping[bytes, Seen]) -> dict[bytes, _Held]:
        """Of paths that were dirty: the commits that hold them, unless HEAD had the same before."""
        sought, unsure = {}, set()
        for path, one in seen.items():
            entry = self._entry(self._at.commit, path)
            if one.commit is None or (one.commit and not self._is_there(one.commit)):
                sought[path] = Sought(entry)
                unsure.add(path)
            elif entry != (self._entry(one.commit, path) if one.commit else None):
                sought[path] = Sought(entry, one.commit)
        return self._found(sought, unsure)

    def _held_before(self, seen: Mapping[bytes, Seen]) -> dict[bytes, _Held]:
        """Of paths that were committed: where they are held now; no commit if nowhere."""
        before = {path: self._as_seen(path, one) for path, one in seen.items()}
        commits = {one.commit for one in before.values() if self._is_there(one.commit)}
        off_head = commits & self._unreached(commits, self._at.commit)
        off_all = unreached(self._repository, off_head, *_ANY_REF)
        held, sought = {}, {}
        for path, one in before.items():
            entry = self._entry(self._at.commit, path)
            if one.commit in commits - off_head:
                held[path] = one
            elif one.is_in(entry) and self._at.commit:
                sought[path] = Sought(entry, one.commit)
            elif one.commit in off_head - off_all:
                held[path] = one
            else:
                held[path] = replace(one, commit="")
        return held | self._found(sought, set())

    def _found(self, sought: Mapping[bytes, Sought], unsure: set[bytes]) -> dict[bytes, _Held]:
        """The commits of HEAD's history that hold the paths; HEAD itself where that is too long to say.

        Of the `unsure` it is not known what was there before: without such a commit nothing is said of them.
        """
        if not sought or not self._at.commit:
            return {}
        found = setters(self._repository, self._at.commit, sought)
        held = {}
        for path, one in sought.items():
            commit = found.get(path, "")
            if not commit and path not in unsure and self._is_newer(one.since):
                commit = self._at.commit
            if commit:
                held[path] = _Held(commit, one.entry, one.entry.blob if one.entry else "")
        return held

    def _is_newer(self, since: str) -> bool:
        """Whether HEAD is no part of the history that does not count: a reset to an older commit brings nothing new."""
        if not since or not self._is_there(since):
            return True
        return bool(self._unreached({self._at.commit}, since))

    def _far(self, held: Mapping[bytes, _Held]) -> dict[bytes, Standing]:
        commits = {one.commit for one in held.values() if self._is_there(one.commit)}
        tip = self._objects.commit(self._upstream) if self._upstream else ""
        landed = commits - self._unreached(commits, tip)
        pushed = commits - unreached(self._repository, commits, "--remotes")
        copied = self._copied({p: one for p, one in held.items() if one.commit not in landed}, tip)
        return {
            path: Standing(
                commit=one.commit,
                blob=one.blob,
                pushed=one.commit in pushed,
                landed=one.commit in landed or path in copied,
                upstream=self._upstream,
            )
            for path, one in held.items()
        }

    def _copied(self, held: Mapping[bytes, _Held], tip: str) -> set[bytes]:
        """The paths that have the same content in the upstream by another commit: squashed, rebased, picked."""
        if not tip or not held:
            return set()
        copied = {path for path, one in held.items() if one.is_in(self._entry(tip, path))}
        left = {
            path: Sought(one.entry, one.commit)
            for path, one in held.items()
            if path not in copied and (one.entry or not one.blob)
        }
        return copied | setters(self._repository, tip, left).keys() if left else copied

    def _as_seen(self, path: bytes, seen: Seen) -> _Held:
        commit, blob = seen.commit or "", seen.blob or ""
        if not self._is_there(commit):
            return _Held(commit, None, blob)
        return _Held(commit, self._entry(commit, path), blob)

    def _entry(self, commit: str, path: bytes) -> Entry | None:
        """What a commit has as a file at `path`."""
        entry = self._objects.entry(commit, path) if commit else None
        return None if entry is None or entry.mode == TREE else entry

    def _is_there(self, commit: str) -> bool:
        if commit not in self._there:
            self._there[commit] = is_id(commit) and self._objects.commit(commit) == commit
        return self._there[commit]

    def _unreached(self, commits: Iterable[str], tip: str) -> set[str]:
        return unreached(self._repository, commits, tip) if tip else set(commits)
