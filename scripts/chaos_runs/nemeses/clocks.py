"""Clocks: the wall clock steps, the machine seems to have slept, the ledger comes back on another clock."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from chaos_runs.nemeses.killing import end
from chaos_runs.nemeses.nemesis import Nemesis
from chaos_runs.shim import LEDGER

if TYPE_CHECKING:
    import random

    from chaos_runs.storm import Storm

_DAY_S = 86_400.0


class WallClock(Nemesis):
    """The wall clock of the ledger, or of a mount and its agent, steps to and fro."""

    def unfit(self, storm: Storm) -> str:
        """It needs the shim."""
        return storm.world.shim.missing

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """By a second or by days."""
        world = storm.world
        name = dice.choice(["ledger", *world.names])
        role = LEDGER if name == "ledger" else world.role(name)
        size_s = dice.choice([1.0, 60.0, 3600.0, 400 * _DAY_S])
        world.shim.set_wall(role, dice.choice([-size_s, size_s]))
        try:
            with storm.fault(self.kind, name):
                storm.last(dice.uniform(0.2, 4.0))
        finally:
            world.shim.set_wall(role, 0.0)


class Suspend(Nemesis):
    """CLOCK_BOOTTIME jumps, for all processes at once, and the timers do not: as after a suspend."""

    def unfit(self, storm: Storm) -> str:
        """It needs the shim."""
        return storm.world.shim.missing

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """There is no way back."""
        seconds = dice.choice([0.5, 2.0, 5.0, 30.0])
        storm.world.shim.suspend(seconds)
        with storm.fault(self.kind, f"{seconds:g} s"):
            pass


class OtherTimeNamespace(Nemesis):
    """The ledger is killed and comes back with a CLOCK_BOOTTIME that starts elsewhere (time_namespaces(7))."""

    def unfit(self, storm: Storm) -> str:
        """It needs root and a kernel that has them."""
        if os.geteuid() != 0:
            return "only root may make time namespaces"
        return "" if os.path.exists("/proc/self/ns/time") else "this kernel has no time namespaces"

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """Every other time it comes back to the first clock."""
        ledger = storm.ledger
        ledger.next_namespace_s = 0 if ledger.next_namespace_s else dice.randrange(1, 100_000)
        end(storm, ledger, self.kind, signal.SIGKILL, 0.0)
