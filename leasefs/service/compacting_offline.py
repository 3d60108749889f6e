"""Dropping old events of a ledger that nobody serves; its file becomes as small as it can."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.service.archive import Archive
from leasefs.service.compacting import target
from leasefs.service.offline import file_of
from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.service.retention import Retention

BITE_EVENTS = 20_000


@dataclass(frozen=True, slots=True)
class Compacted:
    """The log began after event `before`, begins after `base` now, and its file has `size_bytes`."""

    before: int
    base: int
    size_bytes: int


def compact_file(
    place: str, keep: Retention, archive: str, told: Callable[[int, int], None]
) -> Compacted:
    """Drop what need not be kept from the ledger at `place` (a file, or a store's directory).

    `told` hears how much of how much is done.

    Raises:
        StoreLocked: it is being served.
        StoreError, UnknownEvent, OSError: it cannot be read or written, or the archive cannot.
    """
    path = file_of(place)
    # Opening it to write would make one where there is none.
    os.stat(path)
    with closing(SqliteStore(path)) as store:
        before = base = store.base()
        upto_seq = target(store, keep, time.clock_gettime(time.CLOCK_REALTIME))
        if archive and upto_seq > base:
            Archive(archive).keep(store, upto_seq)
        while base < upto_seq:
            base = store.drop(upto_seq, BITE_EVENTS)
            told(base - before, upto_seq - before)
        store.rebuild()
    return Compacted(before, base, os.stat(path).st_size)
