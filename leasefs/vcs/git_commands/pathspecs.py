"""Pathspecs of a command in a subdirectory, rewritten for git at the root (gitglossary(7), pathspec.c).

Git is not run in the subdirectory: it would change to the root by a path, which may lead through our mount. The `prefix`
magic is what git itself writes when it hands a pathspec on: how many bytes are a plain directory, no pattern.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import NotRegular, TooLarge, read_descriptor, read_file
from leasefs.vcs.git_commands.effects import CannotTell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.vcs.git_commands.options import Parsed
    from leasefs.vcs.git_commands.place import Place

_FILE_LIMIT_BYTES = 64 << 20
_NAMED = "name the paths on the command line"
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Pathspecs:
    """How the words of one command become pathspecs at the root. `literal`: magic is switched off for it."""

    place: Place
    literal: bool

    def rewrite(self, words: Sequence[bytes]) -> list[bytes]:
        """Pathspecs that mean at the root what `words` mean where the command runs.

        Raises:
            CannotTell: a path lies outside of the tree, so git would refuse.
        """
        return [self._one(word) for word in words if word != b":" or self.literal]

    def named_by(self, parsed: Parsed, words: Sequence[bytes]) -> list[bytes]:
        """`words`, or what the file of `--pathspec-from-file` lists.

        Raises:
            CannotTell: the file is the standard input or cannot be read.
        """
        name = parsed.value("pathspec-from-file")
        if name is None:
            return self.rewrite(words)
        if name == b"-":
            raise CannotTell("it reads paths from its standard input", _NAMED)
        content = read_named(self.place, name)
        if parsed.has("pathspec-file-nul"):
            return self.rewrite(content.rstrip(b"\0").split(b"\0"))
        if b'"' in content:
            raise CannotTell("it reads quoted paths from a file", _NAMED)
        return self.rewrite([line.rstrip(b"\r") for line in content.split(b"\n") if line])

    def plain(self, word: bytes) -> bytes:
        """A plain path relative to the root (not a pathspec), with a final slash kept."""
        slash = b"/" if word.endswith(b"/") else b""
        if word.startswith(b"/"):
            path = self.place.tree.below(self.place.tree.resolve(b"/", word))
        else:
            joined = os.path.normpath(os.path.join(b"/", self._prefix, word))
            ups = _climbs(os.path.join(self._prefix, word))
            path = None if ups else joined.lstrip(b"/")
        if path is None:
            raise CannotTell(f"{os.fsdecode(word)!r} lies outside of the tree")
        return path + slash if path else b""

    @property
    def _prefix(self) -> bytes:
        return self.place.prefix + b"/" if self.place.prefix else b""

    def _one(self, word: bytes) -> bytes:
        magic, rest = ([], word) if self.literal else _magic(word)
        if b"top" in magic:
            return word
        path = self.plain(rest)
        if self.literal:
            return path or b"."
        # The path no longer begins where the prefix does if it climbed out of it.
        prefix = self._prefix if path.startswith(self._prefix) else b""
        magic = [*magic, b"prefix:%d" % len(prefix)]
        return b":(" + b",".join(magic) + b")" + path


def read_named(place: Place, name: bytes) -> bytes:
    """The content of a file that the command is told to read.

    Raises:
        CannotTell: it is not a regular file, too large, or cannot be read.
    """
    path = place.tree.resolve(place.directory, name)
    below = place.tree.below(path)
    try:
        if below is not None:
            return read_file(place.tree.root_fd, below, _FILE_LIMIT_BYTES)
        return read_descriptor(os.open(path, _READ), _FILE_LIMIT_BYTES)
    except (OSError, NotRegular, TooLarge) as error:
        raise CannotTell(f"{os.fsdecode(name)!r} cannot be read: {error}") from error


def _climbs(path: bytes) -> bool:
    depth = 0
    for name in path.split(b"/"):
        depth += {b"": 0, b".": 0, b"..": -1}.get(name, 1)
        if depth < 0:
            return True
    return False


def _magic(word: bytes) -> tuple[list[bytes], bytes]:
    if word.startswith(b":("):
        inside, closed, rest = word[2:].partition(b")")
        if not closed:
            raise CannotTell(f"{os.fsdecode(word)!r} is not a pathspec")
        return [item for item in inside.split(b",") if item], rest
    if not word.startswith(b":"):
        return [], word
    at, magic = 1, []
    names = {ord("/"): b"top", ord("!"): b"exclude", ord("^"): b"exclude"}
    while at < len(word) and word[at] in names:
        magic.append(names[word[at]])
        at += 1
    return magic, word[at + 1 :] if word[at : at + 1] == b":" else word[at:]
