"""Whether a mount can do what it is for: answer through the kernel, and write down what is about to change.

That whoever asks is answered at all shows that the loop turns. A ledger that is away is no fault of the mount's, and no
restart of it would help: it is said, and the mount is healthy as long as it may be written under what it holds (P12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from leasefs.client.disk_probe import why_no_writes

if TYPE_CHECKING:
    from leasefs.client.lessee import Lessee
    from leasefs.mount.supervised import Supervised

ANSWER_WITHIN_S = 5.0
GOOD_FOR_S = 2.0
"""Who asks oftener gets the last answer: each look starts a process and brings a file to the disk."""


class Health:
    """Answers for one mount whose journal lies in the directory `journals`."""

    def __init__(self, supervised: Supervised, journals: str, lessee: Lessee) -> None:
        self._supervised = supervised
        self._journals = journals
        self._lessee = lessee
        self._asking = trio.Lock()
        self._asked_at_s = float("-inf")
        self._found = ""

    async def problem(self) -> str:
        """What is wrong, in words; empty if nothing is."""
        async with self._asking:
            if trio.current_time() - self._asked_at_s >= GOOD_FOR_S:
                self._found = await self._mount() or await self._disk()
                self._asked_at_s = trio.current_time()
            return self._found

    def remark(self) -> str:
        """What whoever finds it healthy should know all the same; empty if nothing."""
        if self._lessee.ledger_reachable:
            return ""
        return "the ledger does not answer: writes go on under what is held, nothing new is granted"

    async def _mount(self) -> str:
        with trio.move_on_after(ANSWER_WITHIN_S):
            answered = await self._supervised.answers()
            return "" if answered else "the mount does not answer other processes"
        return f"the mount has not answered another process for {ANSWER_WITHIN_S:g} s"

    async def _disk(self) -> str:
        with trio.move_on_after(ANSWER_WITHIN_S):
            return await trio.to_thread.run_sync(
                why_no_writes, self._journals, abandon_on_cancel=True
            )
        return f"{self._journals} takes no writes: no answer for {ANSWER_WITHIN_S:g} s"
