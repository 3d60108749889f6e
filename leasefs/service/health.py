"""Whether a ledger can do what it is for: take requests and write them down. To be alive is not enough.

Whoever asks is answered by the loop, so that turns. The log is asked through its one writing thread, behind whatever
is being appended: does the engine still stand over its file, and at the head that we think it has? And what only a
write can tell (no room, a disk that failed or became read-only) is told by a small file beside it, which is brought to
the disk and removed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leasefs.client.disk_probe import why_no_writes
from leasefs.store.errors import SequenceConflict, StoreError

if TYPE_CHECKING:
    from leasefs.service.writer import LedgerWriter

ANSWER_WITHIN_S = 5.0
GOOD_FOR_S = 2.0
"""Who asks oftener gets the last answer: it costs a synced write, and anybody may ask."""


class Health:
    """Answers for one ledger. `directory` is where its log lies, empty if it lies nowhere."""

    def __init__(
        self, writer: LedgerWriter, directory: str = "", *, within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._writer = writer
        self._directory = directory
        self._within_s = within_s
        self._asking = asyncio.Lock()
        self._asked_at_s = float("-inf")
        self._found = ""
        self._probing: asyncio.Future[str] | None = None

    async def problem(self) -> str:
        """What is wrong, in words; empty if nothing is."""
        async with self._asking:
            loop = asyncio.get_running_loop()
            if loop.time() - self._asked_at_s >= GOOD_FOR_S:
                self._found = await self._engine() or await self._disk()
                self._asked_at_s = loop.time()
            return self._found

    async def _engine(self) -> str:
        try:
            async with asyncio.timeout(self._within_s):
                await self._writer.check()
        except TimeoutError:
            return f"nothing was appended to the log for {self._within_s:g} s: the disk does not answer"
        except SequenceConflict:
            return ""  # something was appended while we waited for our turn
        except StoreError as error:
            return f"the log cannot be appended to: {error}"
        return ""

    async def _disk(self) -> str:
        if not self._directory:
            return ""
        if self._probing is None or self._probing.done():
            # One at a time: where the disk hangs, each would keep a thread for ever.
            self._probing = asyncio.ensure_future(asyncio.to_thread(why_no_writes, self._directory))
        try:
            async with asyncio.timeout(self._within_s):
                return await asyncio.shield(self._probing)
        except TimeoutError:
            return f"{self._directory} takes no writes: the disk has not answered for {self._within_s:g} s"
