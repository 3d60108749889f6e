"""checkout, switch, restore, reset, read-tree, checkout-index: trees and the index put into the working tree."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.vcs.git_commands import tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merging import given_back
from leasefs.vcs.git_commands.sparse import drift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.vcs.git_commands.options import Parsed
    from leasefs.vcs.git_commands.view import Names, View

Words = tuple[bytes, ...]

_STDIN = "name the paths on the command line"


def checkout(view: View, arguments: Words) -> Effect:
    """git-checkout(1): another branch or commit, or paths from the index or a tree."""
    parsed = tables.CHECKOUT.parse(arguments)
    from_file = parsed.value("pathspec-from-file") is not None
    makes = any(parsed.value(name) is not None for name in ("b", "B", "orphan"))
    if makes or parsed.has("detach", "track"):
        start = parsed.before_dashes()[:1]
        return _switch(view, parsed, targets(view, start[0]) if start else [view.head()])
    found, specs = _split(view, parsed)
    changed: Names = frozenset()
    if specs or from_file or parsed.has("patch"):
        named = view.pathspecs.named_by(parsed, specs)
        overlay = dict(parsed.options).get("overlay", True) is not False
        changed = _from(view, found, named, overlay=overlay or parsed.has("patch"))
        changed = with_submodules(view, parsed, changed, found)
        if not parsed.before_dashes() or parsed.dashes is not None or from_file:
            return Paths(changed)
    if parsed.dashes == 0 or (specs and not _only_a_name(parsed)):
        return Paths(changed)
    switched = _switch(view, parsed, found or [view.head()])
    return Paths(changed | switched.paths)


def _only_a_name(parsed: Parsed) -> bool:
    return len(parsed.arguments) == 1


def _split(view: View, parsed: Parsed) -> tuple[list[str], Words]:
    """The trees that the first word may mean, and the pathspecs; as parse_branchname_arg() has it.

    A single word that is both a branch and a path counts as both, where git would refuse or take one of them.
    """
    before, after = parsed.before_dashes(), parsed.after_dashes()
    if not before:
        return [], after
    found = targets(view, before[0])
    if parsed.dashes is not None:
        return found, (*before[1:], *after)
    if not found:
        guessed = _guess(view, parsed, before[0]) if len(before) == 1 else []
        return guessed, before
    return found, before if len(before) == 1 and _is_path(view, before[0]) else before[1:]


def _is_path(view: View, word: bytes) -> bool:
    try:
        return view.place.tree.kind(view.pathspecs.plain(word)) is not None
    except CannotTell:
        return False


def switch(view: View, arguments: Words) -> Effect:
    """git-switch(1)."""
    parsed = tables.SWITCH.parse(arguments)
    if parsed.value("orphan") is not None:
        return _switch(view, parsed, [view.empty()])
    makes = any(parsed.value(name) is not None for name in ("create", "force-create"))
    if not parsed.arguments:
        return _switch(view, parsed, [view.head()])
    found = targets(view, parsed.arguments[0])
    if not found and not makes:
        found = _guess(view, parsed, parsed.arguments[0])
    return _switch(view, parsed, found)


def _switch(view: View, parsed: Parsed, trees: Sequence[str]) -> Paths:
    head = view.head()
    changed = frozenset[bytes]().union(*(view.between(head, tree) for tree in trees))
    if parsed.has("force", "discard-changes"):
        changed |= view.staged() | view.dirty() | view.unmerged()
    elif parsed.has("merge"):
        for tree in trees:
            changed |= given_back(view, head, tree) | view.unmerged()
    for tree in trees:
        changed = with_submodules(view, parsed, changed, [tree])
    return Paths(changed | drift(view))


def _guess(view: View, parsed: Parsed, name: bytes) -> list[str]:
    """What a name that is no local branch means: that branch of a remote (`--guess`)."""
    if dict(parsed.options).get("guess", True) is False:
        return []
    listed = view.ask("for-each-ref", "--format=%(refname)", "refs/remotes").split(b"\n")
    found = [ref for ref in listed if ref.split(b"/", 3)[3:] == [name]]
    return [tree for ref in found if (tree := view.treeish(ref))]


def targets(view: View, name: bytes) -> list[str]:
    """The trees that a word may mean: `-` and `A...B` as well; none if it means nothing."""
    if name == b"-":
        name = b"@{-1}"
    if b"..." in name:
        one, _, other = name.partition(b"...")
        ends = [view.commit(end or b"HEAD") for end in (one, other)]
        if all(ends):
            bases = view.ask("merge-base", "--all", *map(str, ends), absent_status=1).split()
            return [tree for base in bases if (tree := view.treeish(base))]
    tree = view.treeish(name)
    return [tree] if tree else []


def restore(view: View, arguments: Words) -> Effect:
    """git-restore(1)."""
    parsed = tables.RESTORE.parse(arguments)
    staged = parsed.has("staged")
    if staged and not parsed.has("worktree"):
        return Nothing()
    source = parsed.value("source") or (b"HEAD" if staged else None)
    trees = [] if source is None else targets(view, source)
    if source == b"HEAD" and not trees:
        trees = [view.head()]
    specs = view.pathspecs.named_by(parsed, parsed.arguments)
    if not specs and not parsed.has("patch"):
        return Nothing()
    changed = _from(view, trees, specs, overlay=parsed.has("overlay"))
    return Paths(with_submodules(view, parsed, changed, trees))


def _from(view: View, trees: Sequence[str], specs: Sequence[bytes], *, overlay: bool) -> Names:
    """Paths that change when `specs` are taken from a tree, or from the index if there is none."""
    changed = view.dirty(specs) | view.unmerged(specs)
    for tree in trees:
        changed |= view.staged(tree, specs)
        if overlay:
            changed -= view.only_in_index(tree, specs)
    return changed


def reset(view: View, arguments: Words) -> Effect:
    """git-reset(1): only --hard, --merge and --keep write files."""
    parsed = tables.RESET.parse(arguments)
    mode = parsed.last_of("soft", "mixed", "hard", "merge", "keep")
    if mode not in {"hard", "merge", "keep"}:
        return Nothing()
    before = parsed.before_dashes()
    trees = targets(view, before[0]) if before else [view.head()]
    changed: Names = frozenset()
    for tree in trees:
        changed |= view.between(view.head(), tree) if mode == "keep" else view.staged(tree)
    if mode != "keep":
        changed |= view.unmerged()
    if mode == "hard":
        changed |= view.dirty()
    return Paths(with_submodules(view, parsed, changed, trees) | drift(view))


def read_tree(view: View, arguments: Words) -> Effect:
    """git-read-tree(1): files are written with -u only."""
    parsed = tables.READ_TREE.parse(arguments)
    if not parsed.has("u") or parsed.has("dry-run", "empty"):
        return Nothing()
    trees = [tree for name in parsed.arguments for tree in targets(view, name)]
    prefix = parsed.value("prefix")
    if prefix is not None:
        empty = view.empty()
        below = prefix.rstrip(b"/") + b"/" if prefix.strip(b"/") else b""
        return Paths(
            frozenset(below + path for tree in trees for path in view.between(empty, tree))
        )
    changed = _merged(view, trees)
    if parsed.has("reset"):
        changed |= view.dirty() | view.unmerged()
    return Paths(with_submodules(view, parsed, changed, trees) | drift(view))


def _merged(view: View, trees: Sequence[str]) -> Names:
    """One tree against the index, two of which the second is taken, or bases, ours and theirs."""
    if len(trees) < 2:
        return frozenset[bytes]().union(*(view.staged(tree) for tree in trees))
    *bases, theirs = trees if len(trees) == 2 else (*trees[:-2], trees[-1])
    return frozenset[bytes]().union(*(view.between(base, theirs) for base in bases))


def checkout_index(view: View, arguments: Words) -> Effect:
    """git-checkout-index(1)."""
    parsed = tables.CHECKOUT_INDEX.parse(arguments)
    if parsed.has("stdin"):
        raise CannotTell("it reads paths from its standard input", _STDIN)
    if parsed.has("temp") or parsed.value("stage") == b"all":
        return Nothing()  # new files, under names of its own making
    literal = [b":(top,literal)" + view.pathspecs.plain(word) for word in parsed.arguments]
    if not literal and not parsed.has("all"):
        return Nothing()
    prefix = parsed.value("prefix")
    if prefix is not None:
        return _elsewhere(view, prefix, view.tracked(literal))
    changed = view.dirty(literal) | view.unmerged(literal)
    if not parsed.has("force"):
        changed = frozenset(path for path in changed if view.place.tree.kind(path) is None)
    return Paths(changed)


def _elsewhere(view: View, prefix: bytes, names: Names) -> Effect:
    """`--prefix` is put before the names as it is; relative to the root of the tree."""
    tree = view.place.tree
    directory, _, start = prefix.rpartition(b"/")
    at = tree.below(
        tree.resolve(tree.seen, directory + b"/" if prefix.startswith(b"/") else directory)
    )
    if at is None:
        return Nothing()
    return Paths(frozenset(os.path.join(at, start + name) for name in names))


def with_submodules(view: View, parsed: Parsed, changed: Names, trees: Sequence[str]) -> Names:
    """`changed`, with whole submodules if git is told to go into them."""
    recurses = view.flag(b"submodule.recurse")
    given = dict(parsed.options).get("recurse-submodules")
    if given is not None:
        recurses = given is not False
    if not recurses:
        return changed
    found = set(view.submodules())
    for tree in trees:
        listed = view.ask("ls-tree", "-r", "-z", tree).split(b"\0")[:-1]
        found |= {entry.partition(b"\t")[2] for entry in listed if entry.startswith(b"160000 ")}
    return changed | {path + b"/" for path in found}
