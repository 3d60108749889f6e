"""Processes that are started again whenever they have ended: as a supervisor would."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod

from leasefs.client.process import is_killed

_LOOK_S = 0.05


class Process:
    """A process by descriptor, so that no other one that gets its number is ever meant."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError if it is gone already."""
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def lives(self) -> bool:
        """Whether it has not ended. One that was killed has, also while a thread of it still hangs in the kernel."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return not poll.poll(0) and not is_killed(self.pid)

    def send(self, number: signal.Signals) -> bool:
        """A signal; False if there is nothing to get it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, number)
            return True
        return False

    def __del__(self) -> None:
        os.close(self._fd)


class Keeper(ABC):
    """Keeps one process running, from `begin` to `finish`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: Process | None = None
        self.starts = 0
        self.said = ""
        self._over = threading.Event()
        self._down = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    @abstractmethod
    def start(self) -> int:
        """Start it; the pid once it serves. Raises OSError or RuntimeError: try again later."""

    def begin(self) -> None:
        """Start it for the first time, and watch from then on."""
        self._thread.start()

    def finish(self) -> None:
        """Watch no more; what runs goes on."""
        self._over.set()
        self._thread.join(120)

    def serves(self) -> bool:
        """Whether it was started and lives."""
        process = self.process
        return process is not None and process.lives()

    def stay_down(self) -> None:
        """Do not start it again until `come_back`; may be nested."""
        with self._lock:
            self._down += 1

    def come_back(self) -> None:
        """Start it again."""
        with self._lock:
            self._down -= 1

    def wait_for(self, within_s: float) -> bool:
        """Whether it serves within so long."""
        until_s = time.monotonic() + within_s
        while not self.serves():
            if time.monotonic() > until_s:
                return False
            time.sleep(_LOOK_S)
        return True

    def _keep(self) -> None:
        while not self._over.is_set():
            if self.serves() or self._down > 0:
                self._over.wait(_LOOK_S)
                continue
            try:
                self.process = Process(self.start())
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                self.said = str(error)
                self._over.wait(0.3)
            else:
                self.starts += 1
