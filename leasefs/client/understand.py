"""What the arguments of a claim mean, and saying so.

A person types names; names may hold glob characters (`app/[slug]/page.tsx`). So what exists means
itself, and only what does not is read as a glob.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from leasefs.core.errors import BadPath
from leasefs.core.globs import escape, literal_glob, literal_tree, parse_glob
from leasefs.core.paths import join, shown


class Understood(NamedTuple):
    """One argument as a glob (canonical text), and one sentence about what it was taken for."""

    glob: str
    meaning: str


class Roots(NamedTuple):
    """Where a territory's tree is seen: the mountpoint (or the tree itself) and the mount's source."""

    mountpoint: str
    source: str = ""


def understand(argument: str, roots: Roots, cwd: str, *, literal: bool = False) -> Understood:
    """Read one argument of `claim`, typed in directory `cwd` (absolute).

    An existing file or symlink means itself, an existing directory everything below it, anything else
    is a glob; `literal` takes it as a name even if nothing has it. Leading directories that exist mean
    themselves as well, and lead where they really lead (symlinks), because that is where a write goes.

    Raises:
        BadPath: if it lies outside the tree.
        BadPattern: if it is no glob.
    """
    if not argument or "\0" in argument:
        parse_glob(argument)
    place = _locate(argument, roots, cwd)
    if ".." in place.names:
        parse_glob("/".join(place.names))
    kind = _kind(place.on_disk)
    if kind == "directory" or (literal and argument.endswith("/")):
        return _tree(place.path)
    if kind or literal:
        exists = f"the existing {kind}" if kind else "the path, literally,"
        return Understood(literal_glob(place.path).text, f"{exists} {shown(place.path)}")
    if argument.startswith("!"):
        parse_glob(argument)
    return _pattern(place, wants_tree=argument.endswith("/"))


class _Place(NamedTuple):
    """A typed name: the real directory that it starts from, and the names that remain as typed."""

    root: str
    directory: bytes
    names: list[str]

    @property
    def path(self) -> bytes:
        return join(self.directory, os.fsencode("/".join(self.names)))

    @property
    def on_disk(self) -> str:
        return os.path.join(self.root, os.fsdecode(self.path))


def _locate(argument: str, roots: Roots, cwd: str) -> _Place:
    directory = "/" if argument.startswith("/") else cwd
    names = [name for name in argument.split("/") if name not in {"", "."}]
    while names[:1] == [".."]:
        directory = os.path.dirname(directory)
        del names[0]
    keep_last = not argument.endswith("/")
    while len(names) > keep_last and names[0] != ".." and _is_dir(directory, names[0]):
        directory = os.path.join(directory, names.pop(0))
    found = _inside(os.path.realpath(directory), roots)
    if found is None and len(names) == 1 and _is_dir(directory, names[0]):
        # The tree's root itself, named from outside.
        directory = os.path.join(directory, names.pop())
        found = _inside(os.path.realpath(directory), roots)
    if found is None:
        raise BadPath(argument, f"it lies outside {roots.mountpoint}")
    return _Place(roots.mountpoint, found, names)


def _inside(directory: str, roots: Roots) -> bytes | None:
    """`directory` relative to the tree, or None if it is not in it."""
    for root in filter(None, (roots.mountpoint, roots.source)):
        real = os.path.realpath(root).rstrip("/")
        if directory == real or directory.startswith(real + "/"):
            return os.fsencode(directory[len(real) :].strip("/"))
    return None


def _is_dir(directory: str, name: str) -> bool:
    return os.path.isdir(os.path.join(directory, name))


def _kind(path: str) -> str:
    """What has this very name; empty if nothing does."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "file"


def _tree(path: bytes) -> Understood:
    where = f"below the directory {shown(path)}/" if path else "in the tree"
    return Understood(literal_tree(path).text, f"everything {where}")


def _pattern(place: _Place, *, wants_tree: bool) -> Understood:
    text = "/".join(place.names) + "/" * wants_tree
    if place.directory:
        text = f"{escape(place.directory)}/{text}"
    glob = parse_glob(text)
    if not glob.is_literal:
        return Understood(glob.text, f"every path that matches {glob.text}")
    kind = _kind(os.path.join(place.root, os.fsdecode(glob.literal_path)))
    if kind == "directory":
        return _tree(glob.literal_path)
    if kind:
        return Understood(glob.text, f"the existing {kind} {shown(glob.literal_path)}")
    return Understood(glob.text, f"the path {shown(glob.literal_path)}, which does not exist yet")
