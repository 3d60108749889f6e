"""Processes that sleep (SIGSTOP) and wake again, now and then after their leases have run out."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from chaos_runs.nemeses.nemesis import Nemesis

if TYPE_CHECKING:
    import random

    from chaos_runs.storm import Storm


class Freeze(Nemesis):
    """A mount or the ledger sleeps."""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """Mostly for a moment."""
        of_mount = self.kind.startswith("mount")
        keeper = storm.some_mount(dice) if of_mount else storm.ledger
        longest_s = 8.0 if of_mount and dice.random() < 0.3 else 1.0
        process = keeper.process
        if process is None or not process.send(signal.SIGSTOP):
            return
        try:
            with storm.fault(self.kind, keeper.name):
                storm.last(dice.uniform(0.05, longest_s))
        finally:
            process.send(signal.SIGCONT)
