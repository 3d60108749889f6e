"""Dropping old events while the ledger serves: in small bites, each followed by a rest three times as long.

So appends wait for one bite at most, and find the disk free three quarters of the time. Killed at any point, the log begins
where it says (`leasefs.store.sqlite_drop`); what was archived and not dropped yet is archived once more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING

from leasefs.core.errors import LeasefsError, LedgerUnavailable
from leasefs.service import retention
from leasefs.service.archive import Archive
from leasefs.service.entries import UnknownEvent
from leasefs.service.history import Abandoned
from leasefs.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.service.retention import Retention
    from leasefs.service.stream import StreamHub
    from leasefs.store.port import Store

BITE_EVENTS = 500
LOOK_EVERY_S = 600.0
_REST = 3.0
_log = logging.getLogger(__name__)


async def _nothing() -> None:
    pass


class Compactor:
    """Keeps one log as long as it may be. `archive` names a directory that events go to before they are dropped."""

    def __init__(self, store: Store, hub: StreamHub, *, archive: str = "") -> None:
        self._store = store
        self._hub = hub
        self.archive = archive
        # Awaited before it is decided what can be dropped by hand: saves the state.
        self.before: Callable[[], Awaitable[None]] = _nothing
        self._one_at_a_time = asyncio.Lock()
        self._going: set[asyncio.Task[None]] = set()
        self._stopping = threading.Event()

    async def begin(self, keep: Retention, wall_s: float) -> tuple[int, int]:
        """Begin to drop what need not be kept; the base now, and where it will be. Goes on by itself.

        Raises:
            LedgerUnavailable: it is being done already.
            StoreError, UnknownEvent: the log cannot be read.
        """
        if self._one_at_a_time.locked():
            raise LedgerUnavailable("old events are being dropped already; wait until that is done")
        await self.before()
        upto_seq = await asyncio.to_thread(target, self._store, keep, wall_s)
        base = await asyncio.to_thread(self._store.base)
        if upto_seq > base:
            task = asyncio.create_task(self._dropping(upto_seq))
            self._going.add(task)
            task.add_done_callback(self._going.discard)
        return base, max(base, upto_seq)

    async def run(self, keep: Retention, wall_s: Callable[[], float]) -> None:
        """Look now and then whether something can go, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                upto_seq = await asyncio.to_thread(target, self._store, keep, wall_s())
            except (StoreError, UnknownEvent) as error:
                _log.warning("old events stay: %s", error)
                continue
            await self._dropping(upto_seq)

    async def close(self) -> None:
        """Stop after the bite that is being taken; what is being archived is left, and archived anew another time."""
        self._stopping.set()
        for task in self._going:
            task.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)

    async def _dropping(self, upto_seq: int) -> None:
        async with self._one_at_a_time:
            try:
                await self.drop(upto_seq)
            except Abandoned:
                return
            except (StoreError, LeasefsError, OSError) as error:
                _log.warning("old events up to %d stay: %s", upto_seq, error)

    async def drop(self, upto_seq: int) -> None:
        """Archive, if that is wanted, and drop all events up to this one. Raises StoreError, OSError, Abandoned."""
        base = before = await asyncio.to_thread(self._store.base)
        if self.archive and base < upto_seq:
            keep = Archive(self.archive).keep
            await asyncio.to_thread(keep, self._store, upto_seq, self._stopping.is_set)
        while base < upto_seq:
            began_s = time.monotonic()
            base = await asyncio.to_thread(self._store.drop, upto_seq, BITE_EVENTS)
            self._hub.base = base
            if base < upto_seq:
                await asyncio.sleep(_REST * (time.monotonic() - began_s))
        if base > before:
            _log.info("the log begins after event %d now, before it began after %d", base, before)


def target(store: Store, keep: Retention, wall_s: float) -> int:
    """Where the log is to begin. Raises StoreError, UnknownEvent."""
    return retention.target(store, retention.cut(store, keep, wall_s))
