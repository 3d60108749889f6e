"""Saves a snapshot now and then, so that the next start need not read the whole log."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasefs.core.exposition import counter, gauge
from leasefs.service import snapshot
from leasefs.service.snapshot import Saved
from leasefs.store.errors import StoreError
from leasefs.store.port import Snapshot, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasefs.core.exposition import Family
    from leasefs.core.state import State
    from leasefs.service.clock import ClockMark
    from leasefs.service.entries import Record
    from leasefs.service.writer import LedgerWriter

EVERY_EVENTS = 10_000
_log = logging.getLogger(__name__)


class Snapshots:
    """Watches the log grow. `run` saves in the background, `save` at once."""

    def __init__(
        self, store: Store, writer: LedgerWriter, mark: ClockMark, *, every: int = EVERY_EVENTS
    ) -> None:
        self._store = store
        self._writer = writer
        self._mark = mark
        self._every = every
        self._saved_seq = 0
        # Of the last one that this server saved: the log, or its newest snapshot, was read until here.
        self._kept_seq, self._kept_at_s = writer.durable.seq, writer.now_s()
        self._failures = 0
        self._due = asyncio.Event()
        writer.listen(self._heard)

    async def run(self) -> None:
        """Save whenever enough has happened, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            await self.save()

    async def save(self) -> None:
        """Save the durable state. If that fails, it is only logged: the log has everything."""
        state = self._writer.durable
        if state.seq == self._saved_seq:
            return
        self._saved_seq = state.seq
        try:
            await asyncio.to_thread(self._write, state)
        except StoreError as error:
            self._failures += 1
            _log.warning("no snapshot at event %d: %s", state.seq, error)
        else:
            self._kept_seq, self._kept_at_s = state.seq, self._writer.now_s()

    def families(self) -> Iterator[Family]:
        """For the monitor."""
        behind = self._writer.durable.seq - self._kept_seq
        yield gauge(
            "leasefs_snapshot_behind_events",
            "Events that a restart would have to read again: since the last snapshot, or since this server began.",
            behind,
        )
        yield gauge(
            "leasefs_snapshot_age_seconds",
            "How long ago that was.",
            self._writer.now_s() - self._kept_at_s,
        )
        yield counter(
            "leasefs_snapshot_failures_total", "Snapshots that could not be saved.", self._failures
        )

    def _write(self, state: State) -> None:
        data = snapshot.written(Saved(state, self._mark))
        self._store.save_snapshot(Snapshot(state.seq, data))

    def _heard(self, records: Sequence[Record], state: State) -> None:
        if state.seq - self._saved_seq >= self._every:
            self._due.set()
