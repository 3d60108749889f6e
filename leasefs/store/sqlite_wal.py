"""Telling a damaged WAL from a torn one.

SQLite ends a WAL at its first bad frame, and takes what follows for the torn last transaction of a
crash. If the damage lies earlier, acknowledged appends vanish without a word. But every commit here is
synced before the next begins, so a crash tears the last transaction alone. A frame that follows a
commit frame and continues its checksum was therefore written after that commit had succeeded: found
beyond the point where SQLite stopped, it proves that an acknowledged append is gone.

What cannot be told: damage within the very last transaction, a WAL cut between two, or one removed.
Formats: https://sqlite.org/fileformat2.html section 4, https://sqlite.org/walformat.html section 2.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import BinaryIO, NamedTuple

from leasefs.store.errors import StoreCorrupt

_MAGIC_LITTLE, _MAGIC_BIG = 0x377F0682, 0x377F0683
_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_SHM_LAST_FRAME_OFFSET = 16
_MASK = 0xFFFFFFFF


class _Header(NamedTuple):
    order: str
    page_bytes: int
    salts: bytes


class _Frame(NamedTuple):
    commits: bool
    summed: bytes
    sums: tuple[int, int]


def check_wal(path: str) -> None:
    """Check that SQLite, which has the ledger open by now, did not stop short in its WAL.

    Raises:
        StoreCorrupt: the WAL is damaged before its last transaction.
    """
    try:
        file = open(path + "-wal", "rb")  # noqa: SIM115 - closed by the with below
    except FileNotFoundError:
        return
    with file:
        if os.fstat(file.fileno()).st_size <= _HEADER_BYTES:
            return
        stopped_at = _last_frame(path)
        problem = _damage(file, stopped_at)
        # Another process may have appended meanwhile: then its frames are no evidence.
        if problem is not None and _last_frame(path) == stopped_at:
            raise StoreCorrupt(path, problem)


def _damage(file: BinaryIO, stopped_at: int) -> str | None:
    header = _read_header(file)
    if header is None:
        return "the first bytes of its -wal are damaged"
    file.seek(_HEADER_BYTES + stopped_at * (_FRAME_HEADER_BYTES + header.page_bytes))
    number, before = stopped_at, _read_frame(file, header)
    while before is not None:
        number += 1
        frame = _read_frame(file, header)
        if frame is None:
            return None
        if before.commits and _checksum(header.order, frame.summed, before.sums) == frame.sums:
            return f"its -wal is damaged after frame {stopped_at}, and commits follow at {number}"
        before = frame
    return None


def _read_header(file: BinaryIO) -> _Header | None:
    raw = file.read(_HEADER_BYTES)
    magic, _, page_bytes, _, _, _, *sums = struct.unpack(">8I", raw)
    if magic not in {_MAGIC_LITTLE, _MAGIC_BIG}:
        return None
    order = "<" if magic == _MAGIC_LITTLE else ">"
    if _checksum(order, raw[:24], (0, 0)) != tuple(sums):
        return None
    return _Header(order, page_bytes, raw[16:24])


def _read_frame(file: BinaryIO, header: _Header) -> _Frame | None:
    raw = file.read(_FRAME_HEADER_BYTES + header.page_bytes)
    if len(raw) < _FRAME_HEADER_BYTES + header.page_bytes:
        return None
    _, pages_after_commit, _, _, first, second = struct.unpack(">6I", raw[:_FRAME_HEADER_BYTES])
    # Frames of an earlier round of the WAL carry other salts.
    current = raw[8:16] == header.salts
    return _Frame(
        commits=current and pages_after_commit != 0,
        summed=raw[:8] + raw[_FRAME_HEADER_BYTES:] if current else b"",
        sums=(first, second) if current else (-1, -1),
    )


def _checksum(order: str, data: bytes, start: tuple[int, int]) -> tuple[int, int]:
    first, second = start
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second


def _last_frame(path: str) -> int:
    """The last frame SQLite counts in, from the WAL index that it shares with all its processes."""
    with open(path + "-shm", "rb") as file:
        file.seek(_SHM_LAST_FRAME_OFFSET)
        return int.from_bytes(file.read(4), sys.byteorder)
