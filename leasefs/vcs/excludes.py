"""The ignore rules that stand outside the tree: `info/exclude`, `core.excludesFile`, and whether case counts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import NotRegular, TooLarge, read_descriptor, read_file
from leasefs.vcs.errors import RulesRefused, VcsError
from leasefs.vcs.ignore_file import (
    FILE_LIMIT_BYTES,
    Cost,
    IgnoreFile,
    compile_rules,
    refused_file,
)
from leasefs.vcs.plumbing import config_values, configured, is_true

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.vcs.gitdir import GitDir

_IGNORE_CASE, _EXCLUDES_FILE = "core.ignoreCase", "core.excludesFile"
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Excludes:
    """`files` in the order they are asked. A `distrust` says why no path at all may count as scratch."""

    files: tuple[IgnoreFile, ...] = ()
    distrust: str | None = None

    @property
    def cost(self) -> Cost:
        """What asking all of them costs."""
        return sum((file.cost for file in self.files), Cost())


def load_excludes(root_fd: int, gitdir: GitDir) -> Excludes:
    """Read both files and the configuration that concerns them. Runs git: call it in a worker thread."""
    try:
        set_here = configured(gitdir, _IGNORE_CASE, _EXCLUDES_FILE)
        if set_here[_IGNORE_CASE] and is_true(gitdir, _IGNORE_CASE):
            return Excludes(
                distrust="core.ignoreCase is on, so ignore rules are not applied: nothing is scratch"
            )
        global_path = _global_path(gitdir, is_set=bool(set_here[_EXCLUDES_FILE]))
    except VcsError as error:
        return Excludes(
            distrust=f"git's configuration cannot be read ({error}): nothing is scratch"
        )
    found = [
        _load(
            "info/exclude", lambda: read_file(gitdir.common_fd, b"info/exclude", FILE_LIMIT_BYTES)
        )
    ]
    if global_path:
        shown = os.fsdecode(global_path)
        found.append(_load(shown, lambda: _read_global(root_fd, global_path)))
    files = tuple(file for file in found if file)
    if not sum((file.cost for file in files), Cost()).fits():
        return Excludes(
            (refused_file(b"", "the exclude files are too complex; they are not used"),)
        )
    return Excludes(files)


def _load(shown: str, read: Callable[[], bytes]) -> IgnoreFile | None:
    try:
        return compile_rules(b"", read(), shown)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except RulesRefused as error:
        return refused_file(b"", str(error))
    except (NotRegular, TooLarge) as error:
        return refused_file(b"", f"{shown} is {error}; it is not used")
    except OSError as error:
        return refused_file(b"", f"{shown} cannot be read: {error.strerror}; it is not used")


def _global_path(gitdir: GitDir, *, is_set: bool) -> bytes | None:
    """git-config(1), core.excludesFile: unset means `git/ignore` in the user's configuration directory."""
    values = config_values(gitdir, _EXCLUDES_FILE, "path") if is_set else []
    if values:
        return values[-1] or None
    home = os.environb.get(b"HOME")
    base = os.environb.get(b"XDG_CONFIG_HOME") or (home and home + b"/.config")
    return base + b"/git/ignore" if base else None


def _read_global(root_fd: int, path: bytes) -> bytes:
    """A relative path is the tree's, as git reads it from there; one into the tree must not go through a mount."""
    root = os.readlink(f"/proc/self/fd/{root_fd}".encode())
    absolute = os.path.normpath(os.path.join(root, path))
    below = os.path.relpath(absolute, root)
    if below != b".." and not below.startswith(b"../"):
        return read_file(root_fd, below, FILE_LIMIT_BYTES)
    return read_descriptor(os.open(absolute, _READ), FILE_LIMIT_BYTES)
