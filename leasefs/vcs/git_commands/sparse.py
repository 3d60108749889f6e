"""Sparse checkouts: which files come and go when other patterns apply (git-sparse-checkout(1)).

Git is let do it: in a git directory and an empty working tree of our own, on a copy of the index, whose entries then say
what is left out of the tree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import read_file
from leasefs.vcs.errors import GitFailed
from leasefs.vcs.git_commands import tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merging import give, private_directory

if TYPE_CHECKING:
    from leasefs.vcs.git_commands.view import Names, View

_LIMIT_BYTES = 1 << 30
_PATTERNS = "name the directories on the command line"


def drift(view: View) -> Names:
    """What any command that goes through the index brings in or takes away, as the patterns changed since the last."""
    if not view.flag(b"core.sparsecheckout"):
        return frozenset()
    try:
        patterns = read_file(view.place.gitdir.fd, b"info/sparse-checkout", _LIMIT_BYTES)
    except FileNotFoundError:
        return frozenset()
    return _moved(view, patterns, cone=view.flag(b"core.sparsecheckoutcone", default=True))


def sparse_checkout(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-sparse-checkout(1)."""
    verb, words = (arguments[0], arguments[1:]) if arguments else (b"", ())
    if verb in {b"", b"list", b"check-rules"}:
        return Nothing()
    if verb == b"disable":
        return Paths(_left_out(view))
    if verb in {b"reapply", b"init"} and not words and view.flag(b"core.sparsecheckout"):
        return Paths(drift(view))
    if verb not in {b"set", b"add", b"init"}:
        raise CannotTell(f"`git sparse-checkout {os.fsdecode(verb)}` is not known to leasefs")
    parsed = tables.SPARSE_SET.parse(words)
    if parsed.has("stdin"):
        raise CannotTell("it reads patterns from its standard input", _PATTERNS)
    cone = view.flag(b"core.sparsecheckoutcone", default=True)
    given = dict(parsed.options).get("cone")
    cone = cone if given is None or verb == b"add" else given is not False
    names = list(parsed.arguments)
    if cone:
        names = [view.pathspecs.plain(name).strip(b"/") for name in names]
    if verb == b"add":
        return Paths(_added(view, names, cone=cone))
    patterns = _cone(names) if cone else b"".join(name + b"\n" for name in names)
    new = view.only_in_index(
        view.head()
    )  # left out or not, what is merged anew below is HEAD alone
    return Paths(_moved(view, patterns, cone=cone) | new)


def _added(view: View, names: list[bytes], *, cone: bool) -> Names:
    """Nothing is taken away; of what is left out, at most all of it comes, in cone mode what lies along the names."""
    left_out = _left_out(view)
    if not cone:
        return left_out | drift(view)
    around = [b"", *(name + b"/" for name in names)]
    along = {parent for name in names for parent in _parents(name)}
    come = {p for p in left_out if os.path.dirname(p) in along or p.startswith(tuple(around[1:]))}
    return frozenset(come) | drift(view)


def _cone(names: list[bytes]) -> bytes:
    lines = [b"/*", b"!/*/"]
    wanted = sorted({name for name in names if name})
    parents = sorted({parent for name in wanted for parent in _parents(name) if parent})
    for parent in parents:
        lines += [b"/" + _escaped(parent) + b"/", b"!/" + _escaped(parent) + b"/*/"]
    lines += [b"/" + _escaped(name) + b"/" for name in wanted]
    return b"".join(line + b"\n" for line in lines)


def _escaped(name: bytes) -> bytes:
    return b"".join(b"\\" + bytes([c]) if c in b"*?[\\" else bytes([c]) for c in name)


def _parents(name: bytes) -> list[bytes]:
    parts = name.split(b"/")
    return [b"/".join(parts[:end]) for end in range(len(parts))]


def _left_out(view: View, variables: dict[str, str] | None = None) -> Names:
    listed = view.ask("ls-files", "-t", "-z", variables=variables, tree=not variables).split(b"\0")[
        :-1
    ]
    return frozenset(entry[2:] for entry in listed if entry.startswith(b"S "))


def _moved(view: View, patterns: bytes, *, cone: bool) -> Names:
    """Paths of the index that come or go when `patterns` apply."""
    with private_directory(view) as directory:
        git, tree = f"{directory}/git", f"{directory}/tree"
        os.makedirs(f"{git}/info")
        os.mkdir(tree)
        for name, content in (("HEAD", _head(view)), ("info/sparse-checkout", patterns)):
            with open(f"{git}/{name}", "wb") as file:
                file.write(content)
        try:
            with open(f"{git}/index", "wb") as file:
                file.write(read_file(view.place.gitdir.fd, b"index", _LIMIT_BYTES))
        except FileNotFoundError:
            return frozenset()
        give(directory)
        variables = {"GIT_DIR": git, "GIT_WORK_TREE": tree}
        settings = (
            "core.sparseCheckout=true",
            f"core.sparseCheckoutCone={'true' if cone else 'false'}",
        )
        options = [word for setting in settings for word in ("-c", setting)]
        try:
            view.ask(*options, "read-tree", "-m", "-u", "HEAD", variables=variables)
        except GitFailed as error:
            raise CannotTell(f"git cannot say what the patterns would change: {error}") from error
        return _left_out(view) ^ _left_out(view, variables)


def _head(view: View) -> bytes:
    commit = view.commit(b"HEAD")
    if commit is None:
        raise CannotTell("there is no commit yet", "commit something first")
    return commit.encode() + b"\n"
