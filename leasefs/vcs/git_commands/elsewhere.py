"""worktree, clone, submodule and bisect: other working trees, and other commits in this one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.vcs.git_commands import tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merge import state

if TYPE_CHECKING:
    from leasefs.vcs.git_commands.view import Names, View

Words = tuple[bytes, ...]

_LIST_LIMIT = 100_000


def worktree(view: View, arguments: Words) -> Effect:
    """git-worktree(1): a working tree elsewhere is no change of this one, a directory in it is."""
    verb, words = (arguments[0], arguments[1:]) if arguments else (b"list", ())
    if verb == b"add":
        parsed = tables.WORKTREE_ADD.parse(words)
        return _directories(view, parsed.arguments[:1])
    if verb in {b"remove", b"move"}:
        return _directories(view, tuple(word for word in words if not word.startswith(b"-")))
    if verb in {b"list", b"lock", b"unlock", b"prune", b"repair"}:
        return Nothing()
    raise CannotTell(f"`git worktree {os.fsdecode(verb)}` is not known to leasefs")


def clone(view: View, arguments: Words) -> Effect:
    """git-clone(1), when run inside the tree."""
    parsed = tables.CLONE.parse(arguments)
    if len(parsed.arguments) > 1:
        return _directories(view, parsed.arguments[1:2])
    source = parsed.arguments[0].rstrip(b"/") if parsed.arguments else b""
    name = (
        source.removesuffix(b"/.git").rpartition(b"/")[2].rpartition(b":")[2].removesuffix(b".git")
    )
    if parsed.has("bare", "mirror"):
        name += b".git"
    return _directories(view, (name,))


def _directories(view: View, names: Words) -> Effect:
    tree = view.place.tree
    below = [tree.below(tree.resolve(view.place.directory, name)) for name in names]
    return Paths(frozenset(path + b"/" for path in below if path))


def submodule(view: View, arguments: Words) -> Effect:
    """git-submodule(1), and the helper that it runs. What runs inside a submodule is judged there."""
    words = [word for word in arguments if word not in {b"--quiet", b"-q"}]
    verb = words[0] if words else b"status"
    if verb in {b"update", b"deinit", b"clone"}:
        return Paths(_whole(view, words[1:]))
    if verb == b"add":
        *_, last = words
        path = last.rstrip(b"/").rpartition(b"/")[2].removesuffix(b".git")
        named = view.pathspecs.plain(last) if len(words) > 2 and not _is_address(last) else b""
        at = os.path.join(view.place.prefix, path)
        return Paths(frozenset({(named or at).rstrip(b"/") + b"/", b".gitmodules"}))
    if verb in {b"set-branch", b"set-url"}:
        return Paths(frozenset({b".gitmodules"}))
    return Nothing(delegates=True)


def _is_address(word: bytes) -> bool:
    return b":" in word or word.startswith((b"/", b"./", b"../"))


def _whole(view: View, words: list[bytes]) -> Names:
    """All below the submodules that the words name, or below all of them; -- whichever options there are."""
    named = [word for word in words if not word.startswith(b"-")]
    every = view.submodules()
    chosen = view.submodules(view.pathspecs.rewrite(named)) if named else every
    return frozenset(path + b"/" for path in (chosen or every))


def bisect(view: View, arguments: Words) -> Effect:
    """git-bisect(1), and the helper that it runs: the commits between good and bad bound where it can go."""
    words = list(arguments)
    verb = words.pop(0).removeprefix(b"--bisect-") if words else b"help"
    if verb in {b"log", b"terms", b"visualize", b"view", b"help", b"check-term-format"}:
        return Nothing()
    if verb == b"reset":
        start = words[0] if words else state(view, "BISECT_START").strip()
        tree = view.treeish(start) if start else None
        return Paths(view.between(view.head(), tree)) if tree else Nothing()
    if verb == b"replay":
        raise CannotTell("it follows a log", "run the commands of the log one by one")
    if state(view, "BISECT_EXPECTED_REV") == b"" and verb == b"run" and not words:
        return Nothing()
    if b"--no-checkout" in words or view.commit(b"BISECT_HEAD") is not None:
        return Nothing()
    return Paths(_bisected(view, words, starts=verb == b"start"))


def _bisected(view: View, words: list[bytes], *, starts: bool) -> Names:
    cut = words.index(b"--") if b"--" in words else len(words)
    named = [view.commit(word) for word in words[:cut] if not word.startswith(b"-")]
    refs = b"" if starts else view.ask("for-each-ref", "--format=%(objectname)", "refs/bisect/")
    commits = {*filter(None, named), *refs.decode().split()}
    if not starts and (head := view.commit(b"HEAD")):
        commits.add(head)
    if len(commits) < 2:
        return frozenset()
    tips = sorted(commits)
    bases = view.ask("merge-base", "--octopus", *tips, absent_status=1).decode().split()
    around = [f"^{base}^@" for base in bases]
    listed = view.ask("rev-list", f"-{_LIST_LIMIT + 1}", *tips, *around)
    if listed.count(b"\n") > _LIST_LIMIT:
        raise CannotTell(f"it chooses among more than {_LIST_LIMIT} commits")
    inside = [commit for commit in listed.decode().split() if commit not in bases]
    ends = [view.between(view.head(), tree) for tip in tips if (tree := view.treeish(tip.encode()))]
    return view.touched(inside).union(*ends)
