"""Saves a snapshot now and then, so that the next start need not read the whole log."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasefs.service import snapshot
from leasefs.service.snapshot import Saved
from leasefs.store.errors import StoreError
from leasefs.store.port import Snapshot, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

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
            _log.warning("no snapshot at event %d: %s", state.seq, error)

    def _write(self, state: State) -> None:
        data = snapshot.written(Saved(state, self._mark))
        self._store.save_snapshot(Snapshot(state.seq, data))

    def _heard(self, records: Sequence[Record], state: State) -> None:
        if state.seq - self._saved_seq >= self._every:
            self._due.set()
