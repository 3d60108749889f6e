"""The mount of one agent: made anew over a dead one whenever its daemon has ended."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from chaos_runs.keeping import Keeper

if TYPE_CHECKING:
    from chaos_runs.world import World

LEASEFS = os.path.join(os.path.dirname(sys.executable), "leasefs")


class MountKeeper(Keeper):
    """One `leasefs mount`."""

    def __init__(self, world: World, agent: str, ledger_socket: str) -> None:
        super().__init__(agent)
        self.world = world
        self.mountpoint = world.mountpoint(agent)
        self.environment = world.environment(
            world.role(agent), LEASEFS_LEDGER=f"unix:{ledger_socket}"
        )

    def start(self) -> int:
        """Mount, over a dead mount if there is one."""
        kind = self.world.kind(self.name)
        source = self.world.source(self.world.tree_of(self.name))
        options = ["--agent", self.name, "--harness", "chaos", "--replace", "--over-dead", "--json"]
        options += ["--unleased", kind.unleased]
        options += ["--keep-leases"] if kind.keep_leases else []
        done = self._run("mount", source, self.mountpoint, *options, timeout_s=90.0)
        if done.returncode != 0:
            raise RuntimeError(f"exit {done.returncode}: {(done.stdout + done.stderr).strip()}")
        return int(json.loads(done.stdout)["pid"])

    def answers(self) -> bool:
        """Whether a look at it comes back soon."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            command = ["stat", os.path.join(self.mountpoint, ".leasefs/mount.json")]
            done = subprocess.run(command, capture_output=True, timeout=10, check=False)
            return done.returncode == 0
        return False

    def unmount(self) -> str:
        """Take it down; returns what stands against that."""
        try:
            done = self._run("unmount", self.mountpoint, timeout_s=60.0)
        except subprocess.TimeoutExpired:
            return f"unmounting {self.mountpoint} takes more than a minute"
        return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()

    def _run(self, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [LEASEFS, *arguments],
            env=self.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
