"""Disks without room: under the journals of the mounts, or under the ledger's store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from chaos_runs.nemeses.nemesis import Nemesis

if TYPE_CHECKING:
    import random

    from chaos_runs.disks import Disk
    from chaos_runs.storm import Storm


class FullDisk(Nemesis):
    """A small file system is full for a while."""

    def __init__(self, kind: str, *, weight: float) -> None:
        super().__init__(kind, weight=weight)
        self._one = threading.Lock()

    def unfit(self, storm: Storm) -> str:
        """It needs a file system of its own."""
        disk = self._disk(storm)
        return "" if disk.kind else disk.why

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """One at a time: freeing one would free the other."""
        disk = self._disk(storm)
        if not self._one.acquire(blocking=False):
            return
        try:
            disk.fill()
            with storm.fault(self.kind, disk.kind):
                storm.last(dice.uniform(0.3, 3.0))
        finally:
            disk.free()
            self._one.release()

    def _disk(self, storm: Storm) -> Disk:
        world = storm.world
        return world.journal_disk if self.kind.startswith("journal") else world.store_disk
