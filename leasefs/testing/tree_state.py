"""All of a working tree as plain values: names, kinds, permissions, bytes. To compare before with after."""

from __future__ import annotations

import os
import shutil
import stat

State = dict[bytes, tuple[int, bytes]]
"""By path: st_mode (of a symbolic link its kind alone) and content or text; b"" for directories."""


def tree_state(root: bytes, *, without: frozenset[bytes] = frozenset({b".git"})) -> State:
    """Everything below `root`, except what the names `without` at the root hold."""
    found: State = {}
    for directory, names, files in os.walk(root):
        if directory == root:
            names[:] = [name for name in names if name not in without]
            files = [name for name in files if name not in without]
        for name in (*names, *files):
            full = os.path.join(directory, name)
            found[os.path.relpath(full, root)] = _one(full)
    return found


def clear_tree(root: bytes, *, without: frozenset[bytes] = frozenset({b".git"})) -> None:
    """Remove everything below `root`, except the names `without`."""
    for name in set(os.listdir(root)) - without:
        full = os.path.join(root, name)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)


def make_tree(root: bytes, state: State) -> None:
    """Make what `tree_state` told, in an empty directory."""
    for path, (mode, content) in sorted(state.items()):
        full = os.path.join(root, path)
        if stat.S_ISDIR(mode):
            os.mkdir(full)
        elif stat.S_ISLNK(mode):
            os.symlink(content, full)
        else:
            with open(full, "wb") as file:
                file.write(content)
    for path, (mode, _) in sorted(state.items(), reverse=True):
        if not stat.S_ISLNK(mode):
            os.chmod(os.path.join(root, path), stat.S_IMODE(mode))


def _one(full: bytes) -> tuple[int, bytes]:
    mode = os.lstat(full).st_mode
    if stat.S_ISLNK(mode):
        return stat.S_IFLNK, os.readlink(full)
    if not stat.S_ISREG(mode):
        return mode, b""
    with open(full, "rb") as file:
        return mode, file.read()
