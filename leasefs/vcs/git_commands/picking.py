"""cherry-pick, revert and rebase: commits put onto another tree one after the other (sequencer.c)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.git_commands import tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merge import aborted, autostashes, commit_of, stashed_away, state
from leasefs.vcs.git_commands.merging import given_back, merges
from leasefs.vcs.git_commands.patching import left_to_apply
from leasefs.vcs.git_commands.sparse import drift
from leasefs.vcs.git_commands.switching import targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.vcs.git_commands.options import Parsed
    from leasefs.vcs.git_commands.view import Names, View

#: commits that are merged one by one; more of them are bounded by what they changed
_ONE_BY_ONE = 50
_ALL = 5_000
_FEWER = "take fewer commits at a time"
_PICKS = {b"pick", b"p", b"reword", b"r", b"edit", b"e", b"squash", b"s", b"fixup", b"f", b"revert"}
_TAKES_COMMIT = _PICKS | {b"reset", b"t", b"merge", b"m"}


@dataclass(frozen=True, slots=True)
class Step:
    """One commit to be put onto what is there; `mainline`: the number of the parent that it is compared with."""

    commit: str
    reverts: bool = False
    mainline: str = "1"


def cherry_pick(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-cherry-pick(1)."""
    return _sequence(view, tables.PICK.parse(arguments), reverts=False)


def revert(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-revert(1)."""
    return _sequence(view, tables.REVERT.parse(arguments), reverts=True)


def _sequence(view: View, parsed: Parsed, *, reverts: bool) -> Effect:
    ending = parsed.last_of("quit", "continue", "abort", "skip")
    if ending == "quit":
        return Nothing()
    if ending == "abort":
        return Paths(_back_to(view, state(view, "sequencer/head").strip() or b"HEAD"))
    if ending is not None:
        left = _todo(view, state(view, "sequencer/todo"))[1:]
        given_up = aborted(view) if ending == "skip" else frozenset()
        return Paths(given_up | _along(view, left, view.head(), staged=not given_up) | drift(view))
    if parsed.value("strategy") not in {None, b"ort", b"recursive", b"resolve"}:
        raise CannotTell("it merges by a strategy that leasefs does not know")
    names = [b"@{-1}" if name == b"-" else name for name in parsed.arguments]
    mainline = (parsed.value("mainline") or b"1").decode(errors="replace")
    steps = [Step(commit, reverts, mainline) for commit in _list(view, names)]
    if not reverts and not _is_single(names):
        steps.reverse()
    staged = parsed.has("no-commit")
    return Paths(_along(view, steps, view.head(), staged=staged) | drift(view))


def _is_single(names: Sequence[bytes]) -> bool:
    return not any(b".." in name or name.startswith(b"^") for name in names)


def _list(view: View, names: Sequence[bytes]) -> list[str]:
    if any(name.startswith(b"-") for name in names):
        raise CannotTell("it chooses commits by options of git log", "name the commits")
    # In this order: a number after --no-walk would take it back (revision.c).
    walk = [f"-{_ALL + 1}", *(["--no-walk=unsorted"] if _is_single(names) else [])]
    found = view.ask("rev-list", *walk, "--end-of-options", *names, "--")
    return _bounded(found.decode().split())


def _bounded(commits: list[str]) -> list[str]:
    if len(commits) > _ALL:
        raise CannotTell(f"it goes through more than {_ALL} commits", _FEWER)
    return commits


def _along(view: View, steps: Sequence[Step], start: str, *, staged: bool = False) -> Names:
    """What changes when each step is merged into a tree that begins as `start`, or (`staged`) as the index is."""
    if len(steps) > _ONE_BY_ONE:
        return view.touched([step.commit for step in steps])
    if not steps:
        return frozenset()
    with merges(view, start) as into:
        if staged:
            into.current = into.index_tree() or start
        for step in steps:
            parent = f"{step.commit}^{step.mainline}".encode()
            before = view.treeish(parent) or view.empty()
            after = view.treeish(step.commit.encode()) or view.empty()
            into.merge(*((after, before) if step.reverts else (before, after)))
        return into.changed


def _back_to(view: View, name: bytes) -> Names:
    """What `reset --merge` to a commit changes."""
    tree = view.treeish(name) if name else None
    return (view.staged(tree) if tree else frozenset()) | view.unmerged()


def _todo(view: View, text: bytes) -> list[Step]:
    """The steps of a list of things to do (git-rebase(1)); for `reset` and `merge` from here to there."""
    steps = []
    for line in text.split(b"\n"):
        words = [word for word in line.split() if word not in {b"-c", b"-C"}]
        if len(words) < 2 or words[0] not in _TAKES_COMMIT:
            continue
        label = view.commit(b"refs/rewritten/" + words[1]) or view.commit(words[1])
        if label is None:
            raise CannotTell(
                "it is in the middle of a rebase with merges", "finish the rebase, or abort it"
            )
        steps.append(Step(label, words[0] == b"revert"))
    return steps


def rebase(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-rebase(1). A list that the user edits may leave commits out; what it adds from elsewhere is not foreseen."""
    parsed = tables.REBASE.parse(arguments)
    ending = parsed.last_of("continue", "skip", "abort", "quit", "edit-todo", "show-current-patch")
    if ending is not None:
        return _ended(view, ending)
    if parsed.value("strategy") not in {None, b"ort", b"recursive", b"resolve"}:
        raise CannotTell("it merges by a strategy that leasefs does not know")
    words = parsed.arguments
    upstream = b"" if parsed.has("root") else (words[0] if words else b"@{upstream}")
    branch = words[0] if parsed.has("root") and words else b"".join(words[1:2]) or b"HEAD"
    onto, commits = _range(view, parsed, upstream, branch)
    changed = _replayed(view, onto, commits)
    if parsed.has("fork-point") or not words:
        changed |= _replayed(view, onto, _since_fork(view, upstream, branch, commits))
    changed |= view.between(view.head(), view.treeish(branch) or view.head())
    if autostashes(view, parsed, b"rebase.autostash"):
        changed |= given_back(view, view.head(), onto)
    return Paths(changed | drift(view))


def _range(view: View, parsed: Parsed, upstream: bytes, branch: bytes) -> tuple[str, list[str]]:
    """The tree that commits go onto, and the commits, oldest first."""
    tip, base = commit_of(view, branch), commit_of(view, upstream) if upstream else None
    if tip is None or (upstream and base is None):
        raise CannotTell(
            "it rebases on what is no commit here", "git fetch first, or name the commit"
        )
    name = parsed.value("onto")
    if name is not None:
        onto = targets(view, name)
    elif parsed.has("keep-base"):
        onto = targets(view, upstream + b"..." + branch)
    else:
        onto = [view.treeish((base or "").encode()) or view.empty()]
    if len(onto) != 1:
        raise CannotTell("it rebases on what is no commit here", "name the commit")
    if base is None and name is not None:
        base = commit_of(view, name)
    limit = [f"^{base}"] if base else []
    order = ["--reverse", "--topo-order", f"-{_ALL + 1}"]
    return onto[0], _bounded(view.ask("rev-list", *order, tip, *limit).decode().split())


def _since_fork(view: View, upstream: bytes, branch: bytes, commits: list[str]) -> list[str]:
    """Those of the commits that `--fork-point` leaves, by the reflog of the upstream branch."""
    asked = ("merge-base", "--fork-point", upstream, branch)
    try:
        point = view.ask(*asked, absent_status=1).decode().strip()
    except GitFailed:
        view.left_s()
        return commits
    known = set(view.ask("rev-list", point).decode().split()) if point else set()
    return [commit for commit in commits if commit not in known]


def _replayed(view: View, onto: str, commits: Sequence[str]) -> Names:
    """From HEAD to `onto`, and from there commit by commit.

    Merges are left out, or made anew (`--rebase-merges`) on ground that all commits together bound.
    """
    changed = view.between(view.head(), onto)
    if not commits:
        return changed
    walk = ("rev-list", "--no-walk=unsorted", "--no-merges")
    plain = view.ask(*walk, *commits).decode().split()
    return changed | view.touched(commits) | _along(view, [Step(commit) for commit in plain], onto)


def _ended(view: View, ending: str) -> Effect:
    if ending in {"quit", "edit-todo", "show-current-patch"}:
        return Nothing()
    kept: Names = frozenset()
    for directory in ("rebase-merge", "rebase-apply"):
        kept |= stashed_away(view, f"{directory}/autostash")
    if ending == "abort":
        back = state(view, "rebase-merge/orig-head") or state(view, "rebase-apply/orig-head")
        return Paths(kept | _back_to(view, back.strip()) | view.dirty())
    given_up = aborted(view) | view.dirty() if ending == "skip" else frozenset[bytes]()
    if state(view, "rebase-apply/next"):
        return Paths(kept | given_up | left_to_apply(view))
    steps = _todo(view, state(view, "rebase-merge/git-rebase-todo"))
    going_on = _along(view, steps, view.head(), staged=ending == "continue")
    return Paths(kept | given_up | going_on | drift(view))
