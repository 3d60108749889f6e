"""What is under some globs of a working tree: each file's path, mode and blob id, as git would store it.

Scratch does not count; what is not tracked yet does. Of a tracked file whose stat data agrees with the index nothing is
read: git compares 50,000 of them in a tenth of a second. Everything else is hashed, through git's own filters, so that
two clones that check out differently (line ends, large files) have the same content.

Where git itself only believes (`assume-unchanged`, `skip-worktree`), the file is looked at. What cannot be told, such as
changes within a submodule, is a doubt, and a content in doubt equals no other.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from leasefs.vcs.own_git import own_git

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from leasefs.core.globs import Glob

_SUBMODULE, _SYMLINK = b"160000", b"120000"
_REGULAR, _EXECUTABLE = b"100644", b"100755"
_SHA1_DIGITS = 40
_NO_REPOSITORY = 128


@dataclass(frozen=True)
class Content:
    """`files` maps each path to its mode and blob id; `doubt` says why that may not be all, or is ""."""

    files: Mapping[bytes, bytes]
    doubt: str = ""

    @cached_property
    def digest(self) -> str:
        """Equal for equal files, whatever the doubt."""
        written = hashlib.sha256()
        for path, blob in sorted(self.files.items()):
            written.update(b"%b\0%b\0" % (path, blob))
        return written.hexdigest()


def content_of(root: str, globs: Sequence[Glob]) -> Content:
    """The content of the tree at `root` under `globs`, which are relative to it. Runs git, and its filters.

    Raises:
        GitFailed: git cannot tell, or a file could not be read: it may have changed just now.
        OSError: a directory cannot be read.
    """
    prefixes = _prefixes(globs)
    if not os.path.lexists(os.path.join(root, ".git")) and not _is_below_git(root):
        found = _Found(list(_walked(root, prefixes)))
    else:
        found = _asked(root, prefixes)
    return _read(root, found, globs)


@dataclass(slots=True)
class _Found:
    """`unread` are paths to be hashed; `clean` are those whose blob is known; `doubtful` those that cannot be."""

    unread: list[bytes]
    clean: Iterable[tuple[bytes, bytes]] = ()
    doubtful: Sequence[bytes] = ()


def _read(root: str, found: _Found, globs: Sequence[Glob]) -> Content:
    def wanted(path: bytes) -> bool:
        return any(glob.matches(path) for glob in globs)

    files = {path: blob for path, blob in found.clean if wanted(path)}
    files |= _hashed(root, [path for path in found.unread if wanted(path)])
    doubtful = [*found.doubtful, *_repositories_above(root, globs)]
    for path in doubtful:
        if wanted(path) or any(glob.may_match_below(path) for glob in globs):
            shown = os.fsdecode(path)
            return Content(
                files, f"{shown!r} is a repository of its own, whose changes are not looked at"
            )
    if not files:
        return Content(files, "no file matches")
    return Content(files)


def _asked(root: str, prefixes: Sequence[bytes]) -> _Found:
    def git(*arguments: str) -> list[bytes]:
        asked: list[str | bytes] = ["--literal-pathspecs", *arguments, "--", *prefixes]
        return own_git(asked, directory=root).split(b"\0")[:-1]

    listed = git("ls-files", "-z", "-v", "--stage")
    raw = git("diff-files", "-z", "--relative", "--no-renames", "--ignore-submodules=none")
    others = git("ls-files", "-z", "--others", "--exclude-standard")
    return _sorted_out(listed, dict(zip(raw[1::2], raw[0::2], strict=True)), others)


def _sorted_out(listed: list[bytes], changed: Mapping[bytes, bytes], others: list[bytes]) -> _Found:
    """`listed` entries are `TAG MODE BLOB STAGE<tab>PATH`; `changed` maps paths to git's raw format (git-diff(1))."""
    unread = {path for path in others if not path.endswith(b"/")}
    doubtful = [path.rstrip(b"/") for path in others if path.endswith(b"/")]
    clean: list[tuple[bytes, bytes]] = []
    for entry in listed:
        about, _, path = entry.partition(b"\t")
        tag, mode, _rest = about.split(b" ", 2)
        if mode == _SUBMODULE and (path in changed or tag.islower()):
            doubtful.append(path)
        elif tag == b"H" and path not in changed:
            clean.append((path, about[2:-2]))
        else:
            unread.add(path)
    return _Found(sorted(unread), clean, doubtful)


def _hashed(root: str, paths: Iterable[bytes]) -> dict[bytes, bytes]:
    """Mode and blob id of what is there now; a path that is not is left out."""
    found: dict[bytes, bytes] = {}
    regular: list[bytes] = []
    links: list[bytes] = []
    for path in paths:
        mode = _mode_of(os.path.join(os.fsencode(root), path))
        if mode == _SYMLINK:
            links.append(path)
        elif mode:
            regular.append(path)
            found[path] = mode
    found |= dict.fromkeys(links, _SYMLINK)
    blobs = [*_blobs(root, regular), *_blobs_of_links(root, links)]
    for path, blob in zip([*regular, *links], blobs, strict=True):
        found[path] += b" " + blob
    return found


def _mode_of(path: bytes) -> bytes:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return b""
    if stat.S_ISLNK(mode):
        return _SYMLINK
    if not stat.S_ISREG(mode):
        return b""
    return _EXECUTABLE if mode & stat.S_IXUSR else _REGULAR


def _blobs(root: str, paths: Sequence[bytes]) -> list[bytes]:
    if not paths:
        return []
    # It takes paths from the top of the repository, wherever it is run.
    asked = ["rev-parse", "--show-prefix"]
    above = own_git(asked, directory=root, absent_status=_NO_REPOSITORY).removesuffix(b"\n")
    lines = b"".join(b'"%b"\n' % _escaped(above + path) for path in paths)
    return own_git(["hash-object", "--stdin-paths"], directory=root, stdin=lines).split()


def _blobs_of_links(root: str, paths: Sequence[bytes]) -> list[bytes]:
    """`git hash-object` would read what a link leads to."""
    if not paths:
        return []
    nothing = own_git(["hash-object", "--stdin", "--no-filters"], directory=root).strip()
    made = "sha1" if len(nothing) == _SHA1_DIGITS else "sha256"
    targets = [os.readlink(os.path.join(os.fsencode(root), path)) for path in paths]
    return [
        hashlib.new(made, b"blob %d\0%b" % (len(target), target)).hexdigest().encode()
        for target in targets
    ]


def _escaped(path: bytes) -> bytes:
    """As git reads quoted names (quote.c): each byte as itself or as three octal digits."""
    return b"".join(
        bytes([byte]) if 0x20 <= byte < 0x7F and byte not in b'"\\' else b"\\%03o" % byte
        for byte in path
    )


def _prefixes(globs: Sequence[Glob]) -> list[bytes]:
    """Directories that hold all that the globs can match; none means everything."""
    prefixes = {bytes(glob.literal_path) for glob in globs}
    return [] if b"" in prefixes else sorted(prefixes)


def _repositories_above(root: str, globs: Sequence[Glob]) -> Iterator[bytes]:
    """Directories on the way to what the globs match that are repositories of their own: git does not look into them."""
    seen: set[bytes] = set()
    for glob in globs:
        for depth in range(1, len(glob.literal_prefix) + 1):
            directory = b"/".join(glob.literal_prefix[:depth])
            if directory not in seen and os.path.lexists(
                os.path.join(os.fsencode(root), directory, b".git")
            ):
                yield directory
            seen.add(directory)


def _is_below_git(root: str) -> bool:
    asked = ["rev-parse", "--is-inside-work-tree"]
    return own_git(asked, directory=root, absent_status=_NO_REPOSITORY).strip() == b"true"


def _walked(root: str, prefixes: Sequence[bytes]) -> Iterator[bytes]:
    """Every file of a tree that is not git's, below the prefixes."""
    top = os.fsencode(root)

    def fail(error: OSError) -> None:
        raise error

    for prefix in prefixes or [b""]:
        start = os.path.join(top, prefix)
        if prefix and not os.path.isdir(start):
            yield prefix
            continue
        for directory, subdirectories, names in os.walk(start, onerror=fail):
            links = [
                name for name in subdirectories if os.path.islink(os.path.join(directory, name))
            ]
            for name in (*names, *links):
                yield os.path.relpath(os.path.join(directory, name), top)
