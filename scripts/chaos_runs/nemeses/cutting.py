"""The way to the ledger: cut, clogged, or without answers; for one mount or for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos_runs.cables import CUT, DEAF, HOLE, UP
from chaos_runs.nemeses.nemesis import Nemesis

if TYPE_CHECKING:
    import random

    from chaos_runs.storm import Storm

_STATES = {"cable cut": CUT, "cable hole": HOLE, "cable deaf": DEAF}


class OneCable(Nemesis):
    """One mount does not reach the ledger, or does not hear it."""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """Now and then for longer than a lease lasts."""
        name = dice.choice(sorted(storm.mounts))
        longest_s = 7.0 if dice.random() < 0.25 else 1.5
        storm.cables.set(name, _STATES[self.kind])
        try:
            with storm.fault(self.kind, name):
                storm.last(dice.uniform(0.05, longest_s))
        finally:
            storm.cables.set(name, UP)


class LedgerAway(Nemesis):
    """Nobody reaches the ledger."""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """All cables at once."""
        for name in storm.mounts:
            storm.cables.set(name, CUT)
        try:
            with storm.fault(self.kind, "all"):
                storm.last(dice.uniform(0.5, 7.0))
        finally:
            for name in storm.mounts:
                storm.cables.set(name, UP)
