"""The end of processes: at once (SIGKILL), or in order (SIGTERM)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from chaos_runs.nemeses.nemesis import Nemesis

if TYPE_CHECKING:
    import random

    from chaos_runs.keeping import Keeper
    from chaos_runs.storm import Storm

_DOWN_S = 2.0


def end(storm: Storm, keeper: Keeper, kind: str, number: signal.Signals, down_s: float) -> None:
    """End what a keeper keeps, and have it started again after a while."""
    process = keeper.process
    keeper.stay_down()
    try:
        if process is not None and process.send(number):
            with storm.fault(kind, keeper.name):
                storm.last(down_s)
    finally:
        keeper.come_back()


class ServerEnd(Nemesis):
    """The daemon of a mount ends, or the ledger."""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """Mostly its supervisor is there at once."""
        down_s = dice.uniform(0.0, _DOWN_S) if dice.random() < 0.4 else 0.0
        keeper = storm.some_mount(dice) if self.kind.startswith("mount") else storm.ledger
        number = signal.SIGKILL if self.kind.endswith("kill") else signal.SIGTERM
        end(storm, keeper, self.kind, number, down_s)


class AgentKill(Nemesis):
    """An agent is killed in the middle of what it does."""

    def strike(self, storm: Storm, dice: random.Random) -> None:
        """Its tools go on, as orphans do."""
        agent = storm.agents[dice.choice(sorted(storm.agents))]
        end(storm, agent, self.kind, signal.SIGKILL, 0.0)
