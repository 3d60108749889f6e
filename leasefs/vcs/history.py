"""Which commit gave a path what a tip has there, and from where commits can be reached."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.objects import Entry, is_id
from leasefs.vcs.plumbing import run_git

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from leasefs.vcs.worktree import Repository

# So many commits are looked at, newest first; a path that none of them set is held by the tip itself.
_WINDOW = 2000
_CHUNKS = (32, 128, 512, _WINDOW)
# With more names the whole difference of a commit costs less than matching them.
_NAMES = 500
_NAMES_BYTES = 64_000


@dataclass(frozen=True, slots=True)
class Sought:
    """What a tip has at a path (None: nothing), and the commit whose history does not count: "" if all does."""

    entry: Entry | None
    since: str = ""


def unreached(repository: Repository, commits: Iterable[str], *tips: str) -> set[str]:
    """Those of `commits` that none of `tips` reaches: arguments of `git rev-list`, as `--remotes` or an id."""
    asked = {commit for commit in commits if is_id(commit)}
    if not asked:
        return set()
    lines = _rev_list(repository, ["--stdin", "--not", *tips], asked)
    return asked.intersection(lines)


def setters(repository: Repository, tip: str, sought: Mapping[bytes, Sought]) -> dict[bytes, str]:
    """For each path the newest commit of `tip`'s history that made it what `sought` says.

    Commits in the history of `since` are left out; a merge counts where it differs from all its parents. No answer for
    a path that no commit of the last two thousand set.
    """
    window = _Window(repository, tip, {one.since for one in sought.values()})
    found: dict[bytes, str] = {}
    left = dict(sought)
    candidates = list(window.candidates())
    for size in _CHUNKS:
        chunk, candidates = candidates[:size], candidates[size:]
        if not chunk or not left:
            break
        changes = _changes(repository, chunk, left, window.parents)
        for commit in chunk:
            for path, entry in changes.get(commit, {}).items():
                one = left.get(path)
                if one and one.entry == entry and commit not in window.reached(one.since):
                    found[path] = commit
                    del left[path]
    return found


class _Window:
    """The newest commits that a tip, and those whose history does not count, reach."""

    def __init__(self, repository: Repository, tip: str, since: set[str]) -> None:
        self._tip = tip
        self._since = since
        asked = {tip, *filter(is_id, since)}
        lines = _rev_list(
            repository,
            ["--parents", f"--max-count={_WINDOW}", "--ignore-missing", "--stdin"],
            asked,
        )
        self.parents = {commit: parents for commit, *parents in (line.split() for line in lines)}
        self._reached: dict[str, set[str]] = {}

    def reached(self, commit: str) -> set[str]:
        """All of the window that `commit` reaches, itself included."""
        if commit not in self._reached:
            reached: set[str] = set()
            waiting = [commit]
            while waiting:
                one = waiting.pop()
                if one in self.parents and one not in reached:
                    reached.add(one)
                    waiting.extend(self.parents[one])
            self._reached[commit] = reached
        return self._reached[commit]

    def candidates(self) -> Iterator[str]:
        """What the tip reaches and not everything else does, each commit before its parents, newest first."""
        mine = self.reached(self._tip)
        left_out = set.intersection(*(self.reached(one) for one in self._since))
        order = {commit: at for at, commit in enumerate(self.parents)}
        children = dict.fromkeys(mine, 0)
        for commit in mine:
            for parent in self.parents[commit]:
                if parent in children:
                    children[parent] += 1
        ready = [(order[commit], commit) for commit in mine if not children[commit]]
        heapq.heapify(ready)
        while ready:
            _, commit = heapq.heappop(ready)
            if commit not in left_out:
                yield commit
            for parent in set(self.parents[commit]):
                if parent in children:
                    children[parent] -= self.parents[commit].count(parent)
                    if not children[parent]:
                        heapq.heappush(ready, (order[parent], parent))


def _changes(
    repository: Repository,
    commits: list[str],
    paths: Mapping[bytes, Sought],
    parents: Mapping[str, list[str]],
) -> dict[str, dict[bytes, Entry | None]]:
    """What each commit set, of `paths` at least; of a merge what differs from every parent."""
    names = [path.decode(errors="surrogateescape") for path in paths]
    if len(names) > _NAMES or sum(map(len, paths)) > _NAMES_BYTES:
        names = []
    options = ["--stdin", "-r", "-z", "-m", "--root", "--raw", "--no-renames", "--no-abbrev"]
    output = run_git(
        repository.gitdir,
        ["--literal-pathspecs", "diff-tree", *options, "--", *names],
        owner=repository.owner,
        stdin="".join(f"{commit}\n" for commit in commits).encode(),
    )
    counted: dict[str, dict[bytes, tuple[int, Entry | None]]] = {}
    current: dict[bytes, tuple[int, Entry | None]] = {}
    fields = iter(output.split(b"\0")[:-1])
    for field in fields:
        if not field.startswith(b":"):
            current = counted.setdefault(field.decode(), {})
            continue
        path = next(fields)
        current[path] = (current.get(path, (0, None))[0] + 1, _entry(field))
    return {
        commit: {path: entry for path, (times, entry) in set_here.items() if times >= wanted}
        for commit, set_here in counted.items()
        for wanted in [max(len(parents[commit]), 1)]
    }


def _entry(field: bytes) -> Entry | None:
    """`:OLD-MODE NEW-MODE OLD-ID NEW-ID STATUS` (git-diff-tree(1), RAW OUTPUT FORMAT)."""
    _, mode, _, blob, _ = field.decode().split(" ")
    return Entry(int(mode, 8), blob) if int(mode, 8) else None


def _rev_list(repository: Repository, options: list[str], commits: Iterable[str]) -> list[str]:
    output = run_git(
        repository.gitdir,
        ["rev-list", *options],
        owner=repository.owner,
        stdin="".join(f"{commit}\n" for commit in commits).encode(),
    )
    return output.decode().splitlines()
