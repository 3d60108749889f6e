"""Paths inside a territory: bytes, relative to its root, one spelling each.

A path is bytes because the file system's names are: a name need not be UTF-8. The root is `b""`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

from leasefs.core.errors import BadPath

if TYPE_CHECKING:
    from collections.abc import Iterator

RelPath = NewType("RelPath", bytes)
"""A path that `parse_path` accepted: normalised, relative, without `.`, `..`, NUL and empty names."""

ROOT = RelPath(b"")
# PATH_MAX and NAME_MAX of Linux, see limits.h(0p): no longer path can be opened, no longer name made.
MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255
MAX_TREE_PATH_BYTES = 64 * 1024


def parse_path(raw: bytes | str) -> RelPath:
    """The one spelling of `raw`: `./a//b/` is `a/b`, and both `""` and `.` are the root.

    A str stands for the bytes that `text` made it from (UTF-8 with surrogateescape).

    Raises:
        BadPath: if it is absolute, has a `..` component or a NUL, cannot be encoded, or is too long
            for a Linux file system (4096 bytes, 255 in one name).
    """
    path = _encoded(raw)
    if b"\0" in path:
        raise BadPath(shown(path), "it contains a NUL byte")
    if path.startswith(b"/"):
        raise BadPath(shown(path), "it is absolute")
    names = [name for name in path.split(b"/") if name not in {b"", b"."}]
    if b".." in names:
        raise BadPath(shown(path), "it has a `..` component")
    if any(len(name) > MAX_NAME_BYTES for name in names):
        raise BadPath(shown(path), f"it has a name longer than {MAX_NAME_BYTES} bytes")
    normal = b"/".join(names)
    if len(normal) > MAX_PATH_BYTES:
        raise BadPath(shown(path[:80]) + "...", f"it is longer than {MAX_PATH_BYTES} bytes")
    return RelPath(normal)


def _encoded(raw: bytes | str) -> bytes:
    if isinstance(raw, bytes):
        return raw
    try:
        return raw.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        problem = "it has a surrogate that stands for no byte"
        raise BadPath(ascii(raw)[1:-1], problem) from error


def parse_tree_path(raw: str) -> bytes:
    """The path of something in a working tree, as a mount reports it: a directory's ends in a slash.

    The root is empty. A path has one spelling only, so that the same file is never two; it may be longer than
    any that can be opened at once, for what lies deep is reached step by step.

    Raises:
        BadPath: if it is absolute, spelt otherwise, or longer than 64 KiB or 255 bytes in one name.
    """
    path = _encoded(raw)
    plain = path[:-1] if path.endswith(b"/") else path
    if len(path) > MAX_TREE_PATH_BYTES or path.startswith(b"/") or not is_normal(plain):
        raise BadPath(shown(path[:80]), "it is not the one spelling of a path below the root")
    if any(len(name) > MAX_NAME_BYTES for name in plain.split(b"/")):
        raise BadPath(shown(path[:80]) + "...", f"it has a name longer than {MAX_NAME_BYTES} bytes")
    return path


def text(path: bytes) -> str:
    """`path` for programs (JSON): any byte that is not UTF-8 becomes a lone surrogate, losslessly."""
    return path.decode("utf-8", "surrogateescape")


def shown(path: bytes) -> str:
    r"""`path` for people, always on one line: what cannot be printed is written `\n`, `\x1b`, `\xff`.

    A backslash stays as it is, so the result is not meant to be read back.
    """
    return "".join(_shown_character(character) for character in text(path))


def shortened(line: str, longest: int) -> str:
    """`line`, with its middle left out if it has more than `longest` characters."""
    if len(line) <= longest:
        return line
    tail = (longest - 3) // 2
    return f"{line[: longest - 3 - tail]}...{line[len(line) - tail :]}"


def _shown_character(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character if character.isprintable() else ascii(character)[1:-1]


def is_normal(path: bytes) -> bool:
    """Whether `path` is spelt as `parse_path` spells it (lengths aside)."""
    framed = b"/" + path + b"/"
    return not path or not (
        b"//" in framed or b"/./" in framed or b"/../" in framed or b"\0" in framed
    )


def components(path: bytes) -> tuple[bytes, ...]:
    """The names along `path`; none for the root."""
    return tuple(path.split(b"/")) if path else ()


def join(directory: bytes, name: bytes) -> RelPath:
    """The path of `name` (itself possibly several components) inside `directory`."""
    return RelPath(directory + b"/" + name if directory and name else directory or name)


def parent(path: bytes) -> RelPath:
    """The directory that `path` is in; the root is its own parent."""
    return RelPath(path.rpartition(b"/")[0])


def name(path: bytes) -> bytes:
    """The last component of `path`; empty for the root."""
    return path.rpartition(b"/")[2]


def ancestors(path: bytes) -> Iterator[RelPath]:
    """The directories above `path`, nearest first, the root last; none for the root."""
    while path:
        path = parent(path)
        yield RelPath(path)
