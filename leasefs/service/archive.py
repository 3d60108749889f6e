"""Old events as compressed lines of JSON, written before they are dropped from the log.

A segment `events-FIRST-LAST.jsonl.gz` holds one object a line: the event as `leasefs log --json` shows it, with the sum of
the log's chain (`leasefs.store.chain`) in front, so that `verify` finds what was changed or lost. They can be read with
zcat and jq for as long as there are computers. A segment has its name only once it is whole and synced.
"""

from __future__ import annotations

import gzip
import os
import re
import time
import zlib
from typing import TYPE_CHECKING, NamedTuple

from leasefs.service.history import Abandoned
from leasefs.store.chain import ORIGIN, event_sum
from leasefs.store.syncing import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.store.port import Entry, Store

SEGMENT_EVENTS = 50_000
PAGE = 200
_BREATH_S = 0.0005
_LINE = b'{"seq":%d,"sum":"%b",%b\n'
_READ = re.compile(rb'\{"seq":([0-9]+),"sum":"([0-9a-f]*)",(.*)\n')
_NAME = re.compile(r"events-([0-9]{12,18})-([0-9]{12,18})\.jsonl\.gz")


class Segment(NamedTuple):
    """One file of an archive: the numbers of its first and last event."""

    first: int
    last: int
    path: str


class Archive:
    """A directory of segments."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def segments(self) -> list[Segment]:
        """What is there, in the order of the events. Raises OSError."""
        found = [
            Segment(int(match[1]), int(match[2]), os.path.join(self._directory, name))
            for name in os.listdir(self._directory)
            if (match := _NAME.fullmatch(name))
        ]
        return sorted(found)

    def keep(
        self, store: Store, upto_seq: int, abandoned: Callable[[], bool] = lambda: False
    ) -> None:
        """Write the events from the log's base up to this one, as far as they are not there; synced when it returns.

        `abandoned` is asked often: once it holds, what is begun is left.

        Raises:
            Abandoned: it was.
            StoreError: the log cannot be read.
            OSError: the archive cannot be written.
        """
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        after = max([store.base(), *(one.last for one in self.segments() if one.last <= upto_seq)])
        while after < upto_seq:
            after = self._segment(store, after, upto_seq, abandoned)

    def verify(self) -> list[str]:
        """What is wrong, one line each; a gap between segments is no fault of theirs, and not told. Raises OSError."""
        problems: list[str] = []
        last, last_sum = 0, ORIGIN
        for segment in self.segments():
            try:
                follows = segment.first == last + 1
                last_sum = _verified(segment, last_sum if follows else None)
                last = segment.last
            except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
                problems.append(f"{segment.path}: {error}")
                last = 0
        return problems

    def _segment(
        self, store: Store, after: int, upto_seq: int, abandoned: Callable[[], bool]
    ) -> int:
        part = os.path.join(self._directory, ".part")
        first = last = 0
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as raw:
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                for entry in _entries(store, after, upto_seq, abandoned):
                    first, last = first or entry.seq, entry.seq
                    packed.write(_LINE % (entry.seq, entry.sum.hex().encode(), entry.data[1:]))
            raw.flush()
            os.fsync(raw.fileno())
        name = f"events-{first:012d}-{last:012d}.jsonl.gz"
        os.replace(part, os.path.join(self._directory, name))
        sync(self._directory)
        return last


def _verified(segment: Segment, before: bytes | None) -> bytes:
    """The sum of its last event. `before` None: what came before is not known, and its first event is believed.

    Raises ValueError, and what gzip raises.
    """
    seq = 0
    with gzip.open(segment.path, "rb") as lines:
        for line in lines:
            match = _READ.fullmatch(line)
            if match is None:
                raise ValueError(f"after event {seq}: not a line of an archive")
            seq, said = int(match[1]), bytes.fromhex(match[2].decode())
            if before is not None and said and event_sum(before, seq, b"{" + match[3]) != said:
                raise ValueError(f"event {seq} is not the one that was written")
            before = said
    if seq != segment.last:
        raise ValueError(f"it ends at event {seq}, and its name says {segment.last}")
    return before or ORIGIN


def _entries(
    store: Store, after: int, upto_seq: int, abandoned: Callable[[], bool]
) -> Iterator[Entry]:
    """The events of one segment. Raises Abandoned."""
    count = 0
    while after < upto_seq and count < SEGMENT_EVENTS:
        if abandoned():
            raise Abandoned
        page = [one for one in store.read(after, PAGE) if one.seq <= upto_seq]
        yield from page
        after, count = page[-1].seq, count + len(page)
        time.sleep(_BREATH_S)  # whoever waits for the interpreter has it
