"""The ledger of a run: started again whenever it ends, now and then in a time namespace of its own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from chaos_runs.keeping import Keeper
from chaos_runs.shim import LEDGER

if TYPE_CHECKING:
    from chaos_runs.world import World

_READY_WITHIN_S = 20.0


class LedgerKeeper(Keeper):
    """One `python -m leasefs.service`. `ahead_s`: of each boot identity, how far its CLOCK_BOOTTIME is ahead."""

    def __init__(self, world: World) -> None:
        super().__init__("ledger")
        self._world = world
        self.socket = world.at("c/ledger")
        self.store = world.at("store")
        self.ahead_s: dict[str, float] = {}
        self.next_namespace_s = 0
        self._log = world.at("log/ledger.log")

    def start(self) -> int:
        """Start it and wait until it is ready."""
        ready, ready_child = os.pipe()
        ahead_s = self.next_namespace_s
        into = ["unshare", "--time", f"--boottime={ahead_s}", "--"] if ahead_s else []
        options = ["--socket", self.socket, "--store", self.store, "--ready-fd", str(ready_child)]
        with open(self._log, "ab") as log, open(ready, "rb") as ready_end:
            try:
                child = subprocess.Popen(
                    [*into, sys.executable, "-m", "leasefs.service", *options],
                    pass_fds=[ready_child],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._world.environment(LEDGER),
                    cwd="/",
                    start_new_session=True,
                )
            finally:
                os.close(ready_child)
            threading.Thread(target=child.wait, daemon=True).start()
            readable, _, _ = select.select([ready_end], [], [], _READY_WITHIN_S)
            if not readable or ready_end.read(1) == b"":
                child.kill()
                raise RuntimeError(f"the ledger did not start; see {self._log}")
        self._note_clock(child.pid, float(ahead_s))
        return child.pid

    def _note_clock(self, pid: int, ahead_s: float) -> None:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        try:
            named = f"{boot}:{os.stat(f'/proc/{pid}/ns/time').st_ino}"
            self.ahead_s[f"{named}:{ahead_s:.9f}" if ahead_s else named] = ahead_s
        except OSError:
            self.ahead_s[boot] = (
                ahead_s  # it is gone already, or the kernel knows no time namespaces
            )
