"""clean, rm and mv."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from leasefs.vcs.git_commands import tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths

if TYPE_CHECKING:
    from leasefs.vcs.git_commands.view import Names, View

_MODULES = b".gitmodules"


def clean(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-clean(1)."""
    parsed = tables.CLEAN.parse(arguments)
    forced = sum(name == "force" and value is not False for name, value in parsed.options)
    allowed = (
        forced or parsed.has("interactive") or not view.flag(b"clean.requireforce", default=True)
    )
    if parsed.has("dry-run") or not allowed:
        return Nothing()
    specs = view.pathspecs.rewrite(parsed.arguments)
    options = [f"--exclude={os.fsdecode(pattern)}" for pattern in parsed.values("exclude")]
    if parsed.has("X"):
        options += ["-i", "--exclude-standard"]
    elif not parsed.has("x"):
        options.append("--exclude-standard")
    directories = view.others("--directory", *options, specs=specs)
    if not parsed.has("d") and not specs:
        # A directory without anything tracked is left alone as a whole.
        return Paths(frozenset(path for path in directories if not path.endswith(b"/")))
    files = view.others(*options, specs=specs)
    if parsed.has("X"):
        # Git takes an ignored directory also for the beginning of its name (`clean -X b` removes `built/`).
        files |= {path for path in directories if path.endswith(b"/")}
    return Paths(_with_directories(view, files, directories, nested=forced > 1 or parsed.has("X")))


def _with_directories(view: View, files: Names, directories: Names, *, nested: bool) -> Names:
    """Directories that hold nothing but directories go as well; repositories inside (`sub/`) only with -ff."""
    repositories = {path for path in files if path.endswith(b"/")}
    empty = {path for path in directories if path.endswith(b"/")} - repositories
    empty = {path for path in empty if _holds_no_file(view, path)}
    return (files - repositories) | empty | (repositories if nested else set())


def _holds_no_file(view: View, path: bytes) -> bool:
    top = f"/proc/self/fd/{view.place.tree.root_fd}/".encode() + path
    for _, _, files in os.walk(top):
        if files:
            return False
        view.left_s()
    return True


def remove(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-rm(1)."""
    parsed = tables.REMOVE.parse(arguments)
    if parsed.has("cached", "dry-run"):
        return Nothing()
    specs = view.pathspecs.named_by(parsed, parsed.arguments)
    if not specs:
        return Nothing()
    removed = view.tracked(specs)
    modules = view.submodules(specs)
    if modules:
        removed |= {path + b"/" for path in modules} | {_MODULES}
    return Paths(removed)


def move(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-mv(1)."""
    parsed = tables.MOVE.parse(arguments)
    if parsed.has("dry-run"):
        return Nothing()
    if len(parsed.arguments) < 2:
        raise CannotTell("it lacks a destination, so git would refuse the command")
    *sources, target = (view.pathspecs.plain(word) for word in parsed.arguments)
    tree = view.place.tree
    target = target.rstrip(b"/")
    into = not target or tree.kind(target) == stat.S_IFDIR
    changed: set[bytes] = set()
    for source in (path.rstrip(b"/") for path in sources):
        there = os.path.join(target, os.path.basename(source)) if into else target
        slash = b"/" if tree.kind(source) == stat.S_IFDIR else b""
        changed |= {source + slash, there + slash}
        if any(path == source or path.startswith(source + b"/") for path in view.submodules()):
            changed.add(_MODULES)
    return Paths(frozenset(changed))
