"""What git makes of a file before it stores it: line ends, `$Id$`, encodings, filters (gitattributes(5), convert.c).

Git's own commands would do it, but they would also run the programs that `filter.*.clean` names, and those stand in a
configuration that the agents write. So the attributes come from `git check-attr`, which runs nothing, and the built-in
conversions are made here. Git LFS stores a pointer that can be told from the content. Of any other filter only git's own
last judgement is known (`index_file`).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import read_file
from leasefs.vcs.plumbing import run_git

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.vcs.worktree import Repository

_NAMES = ("text", "crlf", "eol", "ident", "filter", "working-tree-encoding")
_LIMIT_BYTES = 1 << 20
_ID = re.compile(rb"\$Id:[^$\n]*\$")
# convert.c, gather_stats(): what of a text is printable; CR and LF are counted on their own
_NOT_PRINTABLE = bytes([*range(1, 8), 11, *range(14, 27), *range(28, 32), 127, 0])
_POINTER = re.compile(
    rb"version https://(?:git-lfs\.github|hawser\.github)\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
POINTER_LIMIT_BYTES = 1024
_LISTED_BY_GROUP = stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP
# Python knows more, of which some are no encodings of text, or take long on a content made for that.
_ENCODINGS = re.compile(
    r"(?:utf-?(?:16|32)(?:[bl]e)?|iso-?8859-\d+|latin-?\d+|(?:windows-|cp)\d+|(?:us-)?ascii|koi8-[ru]"
    r"|shift[-_]jis|euc-(?:jp|kr)|gb(?:2312|k|18030)|big5)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """How one file is converted: `line_ends` is "" (not at all), "text" or "auto"; `filter` names a driver or is ""."""

    line_ends: str = ""
    ident: bool = False
    encoding: str = ""
    filter: str = ""

    def __bool__(self) -> bool:
        return bool(self.line_ends or self.ident or self.encoding)

    def to_git(self, content: bytes) -> bytes:
        """The bytes that git would store, filters apart.

        Raises:
            ValueError: the content is not in the encoding that the attribute names.
        """
        if self.encoding:
            content = _to_utf8(content, self.encoding)
        if self.line_ends == "text" or (self.line_ends == "auto" and not _is_binary(content)):
            content = content.replace(b"\r\n", b"\n")
        return _ID.sub(b"$Id$", content) if self.ident else content


def conversions(
    repository: Repository, paths: Iterable[bytes], *, autocrlf: bool
) -> dict[bytes, Conversion]:
    """How git would convert each of `paths`; `autocrlf`: core.autoCRLF is "true" or "input".

    Raises:
        GitFailed: git cannot tell the attributes.
    """
    asked = list(paths)
    if not asked:
        return {}
    found: dict[bytes, dict[str, str]] = {path: {} for path in asked}
    with tempfile.TemporaryDirectory(prefix="leasefs-") as directory:
        _copy_attributes(repository, asked, directory.encode())
        tree_fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            output = run_git(
                repository.gitdir,
                ["check-attr", "-z", "--stdin", *_NAMES],
                owner=repository.owner,
                tree_fd=tree_fd,
                stdin=b"".join(path + b"\0" for path in asked),
            )
        finally:
            os.close(tree_fd)
    fields = output.split(b"\0")[:-1]
    for path, name, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=True):
        found[path][name.decode()] = value.decode(errors="replace")
    return {path: _conversion(attributes, autocrlf=autocrlf) for path, attributes in found.items()}


def is_lfs_content(pointer: bytes, file_fd: int, size: int) -> bool:
    """Whether `pointer`, a blob of Git LFS, stands for the content of the open file.

    Raises:
        OSError: the file cannot be read.
    """
    found = _POINTER.fullmatch(pointer)
    if found is None or int(found[2]) != size:
        return False
    os.lseek(file_fd, 0, os.SEEK_SET)
    with open(os.dup(file_fd), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().encode() == found[1]


def _copy_attributes(repository: Repository, paths: list[bytes], directory: bytes) -> None:
    """A tree with the `.gitattributes` that hold for `paths` and nothing else: git goes to its tree by path."""
    for below in sorted(_directories(paths)):
        try:
            content = read_file(
                repository.root_fd, os.path.join(below, b".gitattributes"), _LIMIT_BYTES
            )
        except OSError:
            continue  # like git, which reads none that is not a regular file, or no file at all
        target = os.path.join(directory, below)
        os.makedirs(target, exist_ok=True)
        with open(os.path.join(target, b".gitattributes"), "wb") as file:
            file.write(content)
    _show(directory, repository.owner)


def _directories(paths: list[bytes]) -> set[bytes]:
    """Those above the paths, the root included."""
    found = {b""}
    for path in paths:
        end = path.find(b"/")
        while end > 0:
            found.add(path[:end])
            end = path.find(b"/", end + 1)
    return found


def _show(directory: bytes, owner: os.stat_result) -> None:
    """Let the repository's owner, as whom git runs, read what we wrote, and no one change it under our hands."""
    if os.geteuid() or not owner.st_uid:
        return
    for above, _, files in os.walk(directory):
        os.chown(above, -1, owner.st_gid)
        os.chmod(above, _LISTED_BY_GROUP)
        for name in files:
            os.chown(os.path.join(above, name), -1, owner.st_gid)
            os.chmod(os.path.join(above, name), 0o640)


def _conversion(attributes: dict[str, str], *, autocrlf: bool) -> Conversion:
    encoding = attributes.get("working-tree-encoding", "")
    driver = attributes.get("filter", "")
    return Conversion(
        _line_ends(attributes, autocrlf=autocrlf),
        attributes.get("ident") == "set",
        "" if encoding in {"set", "unset", "unspecified"} or _is_utf8(encoding) else encoding,
        "" if driver in {"set", "unset", "unspecified"} else driver,
    )


def _line_ends(attributes: dict[str, str], *, autocrlf: bool) -> str:
    """convert.c, convert_attrs(): only whether CRLF becomes LF, and whether that needs a text, matters here."""
    text = _text(attributes.get("text", "")) or _text(attributes.get("crlf", ""))
    if text == "binary":
        return ""
    if text:
        return text
    if attributes.get("eol") in {"lf", "crlf"}:
        return "text"
    return "auto" if autocrlf else ""


def _text(value: str) -> str:
    return {"set": "text", "input": "text", "auto": "auto", "unset": "binary"}.get(value, "")


def _is_binary(content: bytes) -> bool:
    """convert.c, convert_is_binary()."""
    rest = content.replace(b"\r\n", b"")
    if b"\r" in rest or b"\0" in rest:
        return True
    strange = len(rest) - len(rest.translate(None, _NOT_PRINTABLE))
    printable = len(rest) - strange - rest.count(b"\n")
    if content.endswith(b"\x1a"):
        strange -= 1
    return (printable >> 7) < strange


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("-", "") == "utf8"


def _to_utf8(content: bytes, encoding: str) -> bytes:
    """utf8.c, reencode_string_len(); `-BOM` is git's own way to ask for the mark."""
    name = encoding.removesuffix("-BOM")
    if not _ENCODINGS.fullmatch(name):
        raise ValueError(f"{encoding} is not known here")
    try:
        return content.decode(name).removeprefix("\ufeff").encode()
    except (LookupError, UnicodeError) as error:
        raise ValueError(f"not {encoding}") from error
