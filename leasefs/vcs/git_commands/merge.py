"""merge and pull."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import read_file
from leasefs.vcs.git_commands import tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merging import given_back, merges
from leasefs.vcs.git_commands.sparse import drift
from leasefs.vcs.git_commands.switching import with_submodules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.vcs.git_commands.options import Parsed
    from leasefs.vcs.git_commands.view import Names, View

_STRATEGIES = {b"ort", b"recursive", b"resolve", b"octopus", b"ours"}
_STATE_LIMIT_BYTES = 1 << 20


def merge(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-merge(1)."""
    parsed = tables.MERGE.parse(arguments)
    if parsed.has("continue", "quit"):
        return Nothing()
    if parsed.has("abort"):
        return Paths(aborted(view) | stashed_away(view, "MERGE_AUTOSTASH"))
    names = parsed.arguments or (b"@{upstream}",)
    others = [commit for name in names if (commit := commit_of(view, name))]
    if len(others) != len(names):
        raise CannotTell(
            "it merges what is no commit here", "git fetch first, then merge what came"
        )
    changed = merged(view, others, parsed) | drift(view)
    if autostashes(view, parsed, b"merge.autostash"):
        for other in others:
            changed |= given_back(view, view.head(), _tree(view, other))
    return Paths(with_submodules(view, parsed, changed, others))


def autostashes(view: View, parsed: Parsed, key: bytes) -> bool:
    """Whether local changes are taken away before and given back after."""
    given = dict(parsed.options).get("autostash")
    return view.flag(key) if given is None else given is not False


def commit_of(view: View, name: bytes) -> str | None:
    """The commit that a word means, `-` too."""
    return view.commit(b"@{-1}" if name == b"-" else name)


def merged(view: View, others: Sequence[str], parsed: Parsed) -> Names:
    """What merging the commits into HEAD changes.

    Raises:
        CannotTell: the strategy is not one of git's own, or moves paths.
    """
    head = view.commit(b"HEAD")
    others = [other for other in others if head is None or not _reaches(view, head, other)]
    if not others:
        return frozenset()
    if head is None or _fast_forwards(view, parsed, head, others):
        return view.between(view.head(), _tree(view, others[0]))
    strategies = parsed.values("strategy")
    options = parsed.values("strategy-option")
    if not set(strategies) <= _STRATEGIES or any(word.startswith(b"subtree") for word in options):
        raise CannotTell("it merges by a strategy that leasefs does not know")
    if strategies[-1:] == [b"ours"]:
        return frozenset()
    changed: Names = frozenset()
    with merges(view, view.head()) as into:
        ours, parents = head, [head]
        for other in others:
            base = _base(view, head, other)
            into.take(base, _tree(view, other), ours, other)
            if base is not None and (strategies or options or len(others) > 1):
                changed |= view.between(base, _tree(view, other))
            parents.append(other)
            ours = into.commit(into.current, *parents)
        changed |= into.changed
    return changed | _put_back(view, changed)


def _put_back(view: View, changed: Names) -> Names:
    """All local changes are taken away and put back when git finds that they, or new files, are in the way."""
    staged, dirty = view.staged(), view.dirty()
    if staged or dirty & changed or _in_the_way(view, changed):
        return staged | dirty
    return frozenset()


def _in_the_way(view: View, changed: Names) -> bool:
    there = any(view.place.tree.kind(path) is not None for path in changed - view.tracked())
    return there or view.widened(changed) != changed


def _fast_forwards(view: View, parsed: Parsed, head: str, others: Sequence[str]) -> bool:
    """Whether HEAD just moves on; an annotated tag is merged all the same, unless that is ruled out."""
    if len(others) > 1 or not _reaches(view, others[0], head):
        return False
    given = dict(parsed.options).get("ff")
    refused = given is False or (
        given is None and view.setting(b"merge.ff") in {b"false", b"no", b"0"}
    )
    tags = [name for name in parsed.arguments if view.names_a_tag(name)]
    return parsed.has("ff-only") or not (refused or tags)


def _base(view: View, one: str, other: str) -> str | None:
    """The tree of the only merge base."""
    found = view.ask("merge-base", "--all", one, other, absent_status=1).decode().split()
    return _tree(view, found[0]) if len(found) == 1 else None


def _tree(view: View, commit: str) -> str:
    return view.treeish(commit.encode()) or view.empty()


def _reaches(view: View, descendant: str, ancestor: str) -> bool:
    return not view.ask("rev-list", "-1", ancestor, f"^{descendant}")


def aborted(view: View) -> Names:
    """What `reset --merge` changes, by which a merge or a pick is given up."""
    return view.staged() | view.unmerged()


def stashed_away(view: View, name: str) -> Names:
    """The paths of a stash that a command keeps in a file of the git directory and gives back at its end."""
    commit = state(view, name).strip()
    if not commit:
        return frozenset()
    stash = view.treeish(commit)
    base = view.treeish(commit + b"^1")
    return view.between(base, stash) if stash and base else frozenset()


def state(view: View, name: str) -> bytes:
    """The content of a file in the git directory; b"" if there is none."""
    try:
        return read_file(view.place.gitdir.fd, name.encode(), _STATE_LIMIT_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise CannotTell(f"{name} in the git directory cannot be read: {error}") from error


def pull(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-pull(1): fetches, and then has `git merge` or `git rebase` do the rest.

    It writes files itself where there is no commit yet, and where what it fetched moved the branch it is on.
    """
    parsed = tables.PULL.parse(arguments)
    if view.commit(b"HEAD") is None:
        fetched = [line.split(b"\t") for line in state(view, "FETCH_HEAD").split(b"\n") if line]
        chosen = [fields[0] for fields in fetched if fields[1:2] == [b""]]
        trees = [tree for commit in chosen if (tree := view.treeish(commit))]
        if not trees:
            raise CannotTell(
                "what it will fetch is not known", "git fetch, then git merge what came"
            )
        return Paths(
            frozenset[bytes]().union(*(view.between(view.empty(), tree) for tree in trees))
        )
    if any(b":" in os.path.basename(word) for word in parsed.arguments[1:]):
        return Paths(view.staged())
    return Nothing(delegates=True)
