"""Which paths a command would stage or commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.vcs.git_commands import patching, removing, tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merge import state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.vcs.git_commands.line import Line
    from leasefs.vcs.git_commands.options import Parsed
    from leasefs.vcs.git_commands.view import Names, View

#: builtins that may stage or commit
CONCERNED = frozenset(
    b"add stage commit rm mv apply update-index merge cherry-pick revert rebase am".split()
)

_COMMITS_WHAT_IS_STAGED = {b"merge", b"cherry-pick", b"revert", b"rebase", b"am"}
_ADD = "stage with git add"


def staged(view: View, line: Line) -> Effect:
    """What the command puts into the index or into a commit."""
    name, words = line.name, line.arguments
    if name in {b"add", b"stage"}:
        return _paths(_added(view, tables.ADD.parse(words)))
    if name == b"commit":
        return _paths(_committed(view, tables.COMMIT.parse(words)))
    if name == b"rm":
        parsed = tables.REMOVE.parse(words)
        if parsed.has("dry-run"):
            return Nothing()
        return _paths(view.tracked(view.pathspecs.named_by(parsed, parsed.arguments)))
    if name == b"mv":
        return removing.move(view, words)
    if name == b"apply" and (b"--index" in words or b"--cached" in words):
        return patching.apply(view, tuple(word for word in words if word != b"--cached"))
    if name == b"update-index":
        return _paths(_updated(view, words))
    if name in _COMMITS_WHAT_IS_STAGED and any(word.startswith(b"--c") for word in words):
        return _paths(_in_index(view))
    return Nothing()


def _paths(names: Names | None) -> Effect:
    return Nothing() if names is None else Paths(names)


def _in_index(view: View) -> Names:
    """What is staged, but for what a merge in progress took from the other side as it is."""
    found = view.staged()
    for commit in state(view, "MERGE_HEAD").split():
        theirs = view.treeish(commit)
        if theirs and found:
            found &= view.staged(theirs)
    return found


def _added(view: View, parsed: Parsed) -> Names | None:
    if parsed.has("dry-run", "refresh"):
        return None
    everything = parsed.has("all", "update", "renormalize")
    interactive = parsed.has("interactive", "patch", "edit")
    specs = view.pathspecs.named_by(parsed, parsed.arguments)
    if not specs and not everything and not interactive:
        return None
    changed = view.dirty(specs) | view.unmerged(specs)
    if parsed.has("renormalize") or parsed.value("chmod") is not None:
        changed |= view.tracked(specs)
    if parsed.has("update", "renormalize", "edit", "patch"):
        return changed
    return changed | view.others(
        *([] if parsed.has("force") else ["--exclude-standard"]), specs=specs
    )


def _committed(view: View, parsed: Parsed) -> Names | None:
    if parsed.has("dry-run", "short", "porcelain", "long"):
        return None
    specs = view.pathspecs.named_by(parsed, parsed.arguments)
    if parsed.has("all", "interactive", "patch"):
        return _in_index(view) | view.dirty(specs) | view.unmerged()
    if parsed.has("include"):
        return _in_index(view) | _differing(view, specs)
    if specs:
        return _differing(view, specs)
    return frozenset() if parsed.has("only") else _in_index(view)


def _differing(view: View, specs: Sequence[bytes]) -> Names:
    return view.staged(specs=specs) | view.dirty(specs)


def _updated(view: View, words: Sequence[bytes]) -> Names | None:
    """git-update-index(1): plain paths and --cacheinfo; what comes by its standard input is unknown."""
    if {b"--stdin", b"--index-info"} & set(words):
        raise CannotTell("it reads paths from its standard input", _ADD)
    found: set[bytes] = set()
    for at, word in enumerate(words):
        if word.startswith(b"--cacheinfo"):
            value = word.partition(b"=")[2] or b"".join(words[at + 1 : at + 2])
            found.add(
                value.split(b",", 2)[2]
                if value.count(b",") > 1
                else b"".join(words[at + 3 : at + 4])
            )
        elif not word.startswith(b"-"):
            found.add(view.pathspecs.plain(word))
    literal = [b":(top,literal)" + name for name in found if name]
    if not literal:
        return None
    return frozenset(
        name for name in found if name in view.tracked(literal) | view.others(specs=literal) or name
    )
