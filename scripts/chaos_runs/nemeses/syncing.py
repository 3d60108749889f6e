"""fsync(2) and fdatasync(2) that fail with EIO: those of the ledger, or of one mount."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from chaos_runs.nemeses.nemesis import Nemesis
from chaos_runs.shim import LEDGER

if TYPE_CHECKING:
    import random

    from chaos_runs.storm import Storm


class SyncError(Nemesis):
    """What was written is not certainly on the disk, and whoever asked is told so."""

    def unfit(self, storm: Storm) -> str:
        """It needs the shim."""
        return storm.world.shim.missing

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """For a moment."""
        world = storm.world
        name = dice.choice(world.names)
        role = LEDGER if self.kind.startswith("store") else world.role(name)
        world.shim.set_sync_error(role, errno.EIO)
        try:
            with storm.fault(self.kind, "ledger" if role == LEDGER else name):
                storm.last(dice.uniform(0.05, 1.5))
        finally:
            world.shim.set_sync_error(role, 0)
