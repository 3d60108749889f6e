"""Which paths a command would stage or commit, or take out of the index or off the branch again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.vcs.git_commands import patching, removing, tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merge import state
from leasefs.vcs.git_commands.switching import targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from leasefs.vcs.git_commands.line import Line
    from leasefs.vcs.git_commands.view import Names, View

_ADD = "stage with git add"
_NAMED = "name the paths on the command line"


def staged(view: View, line: Line) -> Effect:
    """What the command puts into the index or into a commit.

    An index of its own (GIT_INDEX_FILE, as `git stash` has for what it runs) is nobody else's.
    """
    if not view.place.uses_its_index(view.process):
        return Nothing()
    handler = _STAGING.get(line.name)
    found = None if handler is None else handler(view, line.arguments)
    return Nothing() if found is None else Paths(found, tracked=True)


def _goes_on(view: View, words: Sequence[bytes]) -> Names | None:
    """`--continue` commits whatever is staged by then."""
    return _in_index(view) if any(word.startswith(b"--c") for word in words) else None


def _removed(view: View, words: Sequence[bytes]) -> Names | None:
    parsed = tables.REMOVE.parse(words)
    if parsed.has("dry-run"):
        return None
    return view.tracked(view.pathspecs.named_by(parsed, parsed.arguments))


def _moved(view: View, words: Sequence[bytes]) -> Names | None:
    return _names(removing.move(view, tuple(words)))


def _applied(view: View, words: Sequence[bytes]) -> Names | None:
    return patching.staged(view, tuple(words))


def _names(effect: Effect) -> Names | None:
    return effect.paths if isinstance(effect, Paths) else None


def _reset(view: View, words: Sequence[bytes]) -> Names | None:
    """git-reset(1): what leaves the index, and what the commits hold that the branch loses."""
    parsed = tables.RESET.parse(words)
    if parsed.has("stdin") or parsed.has("z"):
        raise CannotTell("it reads paths from its standard input", _NAMED)
    before = parsed.before_dashes()
    trees = targets(view, before[0]) if before else []
    specs = (*(before[1:] if trees else before), *parsed.after_dashes())
    named = view.pathspecs.named_by(parsed, specs)
    if named or parsed.has("patch"):
        return view.staged(specs=named) | _staged_anew(view, trees, named)
    moved = frozenset[bytes]().union(*(view.between(view.head(), tree) for tree in trees))
    if parsed.last_of("soft", "mixed", "hard", "merge", "keep") == "soft":
        return moved
    return moved | view.staged() | _staged_anew(view, trees, [])


def _restored(view: View, words: Sequence[bytes]) -> Names | None:
    parsed = tables.RESTORE.parse(words)
    if not parsed.has("staged"):
        return None
    named = view.pathspecs.named_by(parsed, parsed.arguments)
    trees = targets(view, parsed.value("source") or b"HEAD")
    return view.staged(specs=named) | _staged_anew(view, trees, named)


def _read(view: View, words: Sequence[bytes]) -> Names | None:
    """git-read-tree(1) into the index: what it comes to hold, and what was staged before."""
    parsed = tables.READ_TREE.parse(words)
    if parsed.has("dry-run") or parsed.value("index-output") is not None:
        return None
    trees = [tree for name in parsed.arguments for tree in targets(view, name)]
    prefix = (parsed.value("prefix") or b"").strip(b"/")
    if prefix:
        below = [view.between(view.empty(), tree) for tree in trees]
        return frozenset(prefix + b"/" + path for names in below for path in names)
    if parsed.has("empty"):
        trees = [view.empty()]
    return view.staged() | _staged_anew(view, trees, [])


def _staged_anew(view: View, trees: Sequence[str], specs: Sequence[bytes]) -> Names:
    return frozenset[bytes]().union(*(view.staged(tree, specs) for tree in trees))


def _in_index(view: View) -> Names:
    """What is staged, but for what a merge in progress took from the other side as it is."""
    found = view.staged()
    for commit in state(view, "MERGE_HEAD").split():
        theirs = view.treeish(commit)
        if theirs and found:
            found &= view.staged(theirs)
    return found


def _added(view: View, words: Sequence[bytes]) -> Names | None:
    parsed = tables.ADD.parse(words)
    if parsed.has("dry-run", "refresh"):
        return None
    everything = parsed.has("all", "update", "renormalize")
    interactive = parsed.has("interactive", "patch", "edit")
    specs = view.pathspecs.named_by(parsed, parsed.arguments)
    if not specs and not everything and not interactive:
        return None
    changed = view.modified(specs) | view.unmerged(specs)
    if parsed.has("renormalize") or parsed.value("chmod") is not None:
        changed |= view.tracked(specs)
    if parsed.has("update", "renormalize", "edit", "patch"):
        return changed
    return changed | view.others(
        *([] if parsed.has("force") else ["--exclude-standard"]), specs=specs
    )


def _committed(view: View, words: Sequence[bytes]) -> Names | None:
    parsed = tables.COMMIT.parse(words)
    if parsed.has("dry-run", "short", "porcelain", "long"):
        return None
    again = _in_last_commit(view) if parsed.has("amend") else frozenset()
    specs = view.pathspecs.named_by(parsed, parsed.arguments)
    if parsed.has("all", "interactive", "patch"):
        return again | _in_index(view) | view.modified(specs) | view.unmerged()
    if parsed.has("include"):
        return again | _in_index(view) | _differing(view, specs)
    if specs:
        return again | _differing(view, specs)
    return again if parsed.has("only") else again | _in_index(view)


def _in_last_commit(view: View) -> Names:
    """What HEAD's commit changed; of a merge, what neither side has."""
    head = view.commit(b"HEAD")
    if head is None:
        return frozenset()
    options = ("-r", "-c", "--root", "-z", "--name-only", "--no-renames", "--no-commit-id")
    return frozenset(view.ask("diff-tree", *options, head, "--").split(b"\0")[:-1])


def _differing(view: View, specs: Sequence[bytes]) -> Names:
    return view.staged(specs=specs) | view.modified(specs)


def _updated(view: View, words: Sequence[bytes]) -> Names | None:
    """git-update-index(1): plain paths and --cacheinfo; what comes by its standard input is unknown."""
    parsed = tables.UPDATE_INDEX.parse(_with_entries_joined(words))
    if parsed.has("stdin", "index-info"):
        raise CannotTell("it reads paths from its standard input", _ADD)
    found = {view.pathspecs.plain(word) for word in parsed.arguments}
    found |= {value.split(b",", 2)[-1] for value in parsed.values("cacheinfo")}
    if parsed.has("again"):
        found |= view.staged()
    return frozenset(filter(None, found)) or None


def _with_entries_joined(words: Sequence[bytes]) -> list[bytes]:
    """With `--cacheinfo MODE OBJECT PATH` written as one word, MODE,OBJECT,PATH."""
    joined: list[bytes] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        joined.append(word)
        if len(word) > 4 and b"--cacheinfo".startswith(word) and left and b"," not in left[-1]:
            parts = [left.pop() for _ in range(min(3, len(left)))]
            joined.append(b",".join(parts))
    return joined


_STAGING: Mapping[bytes, Callable[[View, Sequence[bytes]], Names | None]] = {
    b"add": _added,
    b"am": _goes_on,
    b"apply": _applied,
    b"cherry-pick": _goes_on,
    b"commit": _committed,
    b"merge": _goes_on,
    b"mv": _moved,
    b"read-tree": _read,
    b"rebase": _goes_on,
    b"reset": _reset,
    b"restore": _restored,
    b"revert": _goes_on,
    b"rm": _removed,
    b"stage": _added,
    b"update-index": _updated,
}

#: builtins that may stage or commit, or undo that
CONCERNED = _STAGING.keys()
