"""Where a path leads, by the caller's view of the file system and without going through a mount of ours.

The tree is entered by its descriptor only; whatever lies outside of it is looked at as usual.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from leasefs.vcs.git_commands.effects import CannotTell

_LINKS = 40  # path_resolution(7)
_OWN = (b"/proc/", b"/dev/fd", b"/dev/stdin")


@dataclass(frozen=True, slots=True)
class Tree:
    """A working tree: its descriptor, and where its users see it."""

    root_fd: int
    seen: bytes

    def below(self, path: bytes) -> bytes | None:
        """The absolute `path` relative to the tree, b"" for the root; None if it lies outside."""
        if path == self.seen:
            return b""
        top = self.seen.rstrip(b"/") + b"/"
        return path[len(top) :] if path.startswith(top) else None

    def kind(self, path: bytes) -> int | None:
        """The file type (stat.S_IFMT) of the tree's `path`; None if there is nothing. Follows a last link nowhere."""
        try:
            found = os.stat(path or b".", dir_fd=self.root_fd, follow_symlinks=False)
        except OSError:
            return None
        return stat.S_IFMT(found.st_mode)

    def resolve(self, base: bytes, path: bytes) -> bytes:
        """The absolute path without links and dots that `path` means to a process in `base`; nothing need be there.

        Raises:
            CannotTell: it goes through too many links, or through what only the process itself can see.
        """
        left = [*reversed(path.split(b"/"))]
        at = b"/" if path.startswith(b"/") else base
        links = 0
        while left:
            name = left.pop()
            if name in {b"", b"."}:
                continue
            if name == b"..":
                at = os.path.dirname(at)
                continue
            there = os.path.join(at, name)
            if (there + b"/").startswith(_OWN):
                raise CannotTell(f"{os.fsdecode(path)!r} is known to the process alone")
            target = self._link(there)
            if target is None:
                at = there
                continue
            links += 1
            if links > _LINKS:
                raise CannotTell(f"{os.fsdecode(path)!r} leads through too many symbolic links")
            at = b"/" if target.startswith(b"/") else at
            left += reversed(target.split(b"/"))
        return at

    def _link(self, path: bytes) -> bytes | None:
        below = self.below(path)
        try:
            if below is None:
                return os.readlink(path)
            return os.readlink(below, dir_fd=self.root_fd) if below else None
        except OSError:
            return None
