"""What git last saw of each file: the stat data of the index, which no plumbing command gives in a stable form.

gitformat-index(5), versions 2 to 4. Only used to save reading a file: an entry stands for a file's content when nothing
of size, mtime and ctime has changed since, and both times are older than the index (git calls the rest "racy"). ctime
cannot be set by a program, so nobody can write to a file and have it look untouched.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from leasefs.vcs.beneath import read_file
from leasefs.vcs.tracked import index_stamp

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from leasefs.vcs.gitdir import GitDir

_HEADER = struct.Struct(">4sII")
_STAT = struct.Struct(">10I")
_LIMIT_BYTES = 1 << 30
_EXTENDED = 0x4000
_STAGES = 0x3000
_SPLIT = b"link"  # an index in two files: gitformat-index(5), "Split index"
_NS = 1_000_000_000


class IndexEntry(NamedTuple):
    """One file as git saw it when it last wrote the index."""

    mode: int
    blob: str
    size: int
    mtime_ns: int
    ctime_ns: int

    def stands_for(self, status: os.stat_result, written_ns: int) -> bool:
        """Whether the file of this `status` still has the content that the entry names."""
        return (
            self.mtime_ns == status.st_mtime_ns < written_ns
            and self.ctime_ns == status.st_ctime_ns < written_ns
            and self.size == status.st_size & 0xFFFFFFFF
        )


class IndexFile(NamedTuple):
    """The entries asked for, and when the index was written."""

    entries: dict[bytes, IndexEntry]
    written_ns: int


NO_INDEX = IndexFile({}, 0)


def read_index(gitdir: GitDir, wanted: Callable[[bytes], bool]) -> IndexFile:
    """The merged entries whose paths are `wanted`; none where the index is absent or of a form not known here."""
    stamp = index_stamp(gitdir)
    if stamp is None:
        return NO_INDEX
    try:
        content = read_file(gitdir.fd, b"index", _LIMIT_BYTES)
        entries = _parse(content, wanted)
    except (OSError, struct.error, ValueError, IndexError):
        return NO_INDEX  # nothing is saved then: every file is read
    if index_stamp(gitdir) != stamp:
        return NO_INDEX
    return IndexFile(entries, stamp.mtime_ns)


def _parse(content: bytes, wanted: Callable[[bytes], bool]) -> dict[bytes, IndexEntry]:
    signature, version, count = _HEADER.unpack_from(content)
    if signature != b"DIRC" or version not in (2, 3, 4):
        return {}
    for id_bytes in (20, 32):
        try:
            return _entries(content, version, count, id_bytes, wanted)
        except ValueError:
            continue
    return {}


def _entries(
    content: bytes, version: int, count: int, id_bytes: int, wanted: Callable[[bytes], bool]
) -> dict[bytes, IndexEntry]:
    """Raises ValueError where this is not what follows from ids of this length."""
    entries: dict[bytes, IndexEntry] = {}
    at, path = _HEADER.size, b""
    for _ in range(count):
        stat = _STAT.unpack_from(content, at)
        id_at = at + _STAT.size
        (flags,) = struct.unpack_from(">H", content, id_at + id_bytes)
        name_at = id_at + id_bytes + (4 if flags & _EXTENDED else 2)
        kept = 0
        if version == 4:
            cut, name_at = _number(content, name_at)
            kept = len(path) - cut
        end = content.index(b"\0", name_at)
        path = path[: max(kept, 0)] + content[name_at:end]
        if not path or kept < 0 or (flags & 0xFFF) not in (len(path), 0xFFF):
            raise ValueError("not an entry")
        if not flags & _STAGES and wanted(path):
            blob = content[id_at : id_at + id_bytes].hex()
            entries[path] = IndexEntry(
                stat[6], blob, stat[9], stat[2] * _NS + stat[3], stat[0] * _NS + stat[1]
            )
        at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)
    if content[at : at + 4] == _SPLIT:
        return {}
    return entries


def _number(content: bytes, at: int) -> tuple[int, int]:
    """The variable-width number of version 4 (as in gitformat-pack(5), OFS_DELTA), and where it ends."""
    byte = content[at]
    value = byte & 127
    while byte & 128:
        at += 1
        byte = content[at]
        value = ((value + 1) << 7) | (byte & 127)
    return value, at + 1
