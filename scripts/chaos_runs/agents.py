"""The processes of the agents: each works until it is told to stop, and is started again when it was killed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from chaos_runs.keeping import Keeper

if TYPE_CHECKING:
    from chaos_runs.mounts import MountKeeper
    from chaos_runs.world import World

_SCRIPTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NUMBERS_OF_A_LIFE = 1_000_000


class AgentKeeper(Keeper):
    """One agent, life after life."""

    def __init__(self, world: World, mount: MountKeeper, seed: int) -> None:
        super().__init__(mount.name)
        self._world = world
        self._mount = mount
        self._seed = seed
        self._lives = 0
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """Begin a life."""
        self._child = self._spawn("work")
        return self._child.pid

    def tell_to_stop(self) -> None:
        """End what it does, give back what it holds, and end."""
        child = self._child
        if child is not None and child.stdin is not None:
            with contextlib.suppress(OSError):
                child.stdin.close()

    def wait_for_end(self, within_s: float) -> bool:
        """Whether it has ended within so long."""
        try:
            if self._child is not None:
                self._child.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def probe(self, within_s: float) -> subprocess.Popen[bytes]:
        """A last life that claims, writes and releases once, within so long."""
        return self._spawn("probe", within_s=within_s)

    def _spawn(self, mode: str, **more: object) -> subprocess.Popen[bytes]:
        self._lives += 1
        kind = self._world.kind(self.name)
        about = {
            "mode": mode,
            "agent": self.name,
            "others": [name for name in self._world.names if name != self.name],
            "tree": self._world.tree_of(self.name),
            "mountpoint": self._world.mountpoint(self.name),
            "unleased": kind.unleased,
            "acts": self._world.at("rec/acts.jsonl"),
            "first": self._lives * NUMBERS_OF_A_LIFE,
            "seed": f"{self._seed}/{self.name}/{self._lives}",
            **more,
        }
        others = self._mount.environment.get("PYTHONPATH", "")
        places = os.pathsep.join(filter(None, (_SCRIPTS, others)))
        environment = {**self._mount.environment, "PYTHONPATH": places}
        with open(self._world.at(f"log/agent-{self.name}.log"), "ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "chaos_runs.agent"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        if child.stdin is not None:
            child.stdin.write(json.dumps(about).encode() + b"\n")
            child.stdin.flush()
        if mode == "work":
            threading.Thread(target=child.wait, daemon=True).start()
        return child
