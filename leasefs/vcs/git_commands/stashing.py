"""git-stash(1): taking local changes away, and giving them back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.vcs.git_commands import tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merging import merges

if TYPE_CHECKING:
    from leasefs.vcs.git_commands.view import Names, View

_QUIET = {b"list", b"show", b"drop", b"clear", b"create", b"store", b"export", b"import"}


def stash(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """All of its subcommands; without one it is `push`."""
    verb, words = (arguments[0], arguments[1:]) if arguments else (b"push", ())
    if verb.startswith(b"-"):
        verb, words = b"push", arguments
    if verb in _QUIET:
        return Nothing()
    if verb in {b"push", b"save"}:
        return Paths(_pushed(view, words, saves=verb == b"save"))
    if verb in {b"apply", b"pop"}:
        parsed = tables.STASH_APPLY.parse(words)
        return Paths(_applied(view, parsed.arguments))
    if verb == b"branch":
        name = _stash(view, words[1:])
        base = view.treeish(name + b"^1")
        switched = view.between(view.head(), base) if base else frozenset()
        return Paths(switched | _difference(view, name) | _untracked(view, name))
    raise CannotTell(f"`git stash {os.fsdecode(verb)}` is not known to leasefs")


def _pushed(view: View, words: tuple[bytes, ...], *, saves: bool) -> Names:
    parsed = tables.STASH_PUSH.parse(words)
    specs = [] if saves else view.pathspecs.named_by(parsed, parsed.arguments)
    if parsed.has("staged"):
        return view.staged(specs=specs)
    changed = view.staged(specs=specs) | view.dirty(specs)
    if parsed.has("all"):
        return changed | view.others(specs=specs)
    if parsed.has("include-untracked"):
        return changed | view.others("--exclude-standard", specs=specs)
    return changed


def _stash(view: View, words: tuple[bytes, ...]) -> bytes:
    """The commit of a stash; b"-" if there is none, which means nothing."""
    name = words[0] if words else b"refs/stash"
    found = view.commit(b"stash@{" + name + b"}" if name.isdigit() else name)
    return found.encode() if found else b"-"


def _applied(view: View, words: tuple[bytes, ...]) -> Names:
    name = _stash(view, words)
    base, stashed = view.treeish(name + b"^1"), view.treeish(name)
    if base is None or stashed is None:
        return frozenset()  # git refuses
    with merges(view, view.head()) as into:
        if view.staged():
            into.current = into.index_tree() or into.current
        into.merge(base, stashed)
        return into.changed | _untracked(view, name)


def _difference(view: View, name: bytes) -> Names:
    base, stashed = view.treeish(name + b"^1"), view.treeish(name)
    return view.between(base, stashed) if base and stashed else frozenset()


def _untracked(view: View, name: bytes) -> Names:
    tree = view.treeish(name + b"^3")
    return view.between(view.empty(), tree) if tree else frozenset()
