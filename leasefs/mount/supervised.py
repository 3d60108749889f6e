"""Signs of life of one mount, for its supervisor: sent only after the mount itself has answered.

The daemon must never touch its own mountpoint, so another process asks, stat(1) for one statfs(2): through the
kernel, this loop and the file system beneath, and never out of a cache. While any of them hangs the question waits,
no sign goes out, and the supervisor's watchdog ends us; with the daemon's end the question ends as well.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import trio

from leasefs.client.log_events import Event, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.client.lessee import Lessee
    from leasefs.client.supervisor import Supervisor
    from leasefs.mount.work import Work

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
SILENT_AFTER_S = 10.0
_ASK_AGAIN_S = 0.1
_PYTHON = "import os, sys; os.statvfs(sys.argv[1])"


class Supervised:
    """One mount's word to its supervisor; `status` is how things stand, in one line."""

    def __init__(self, supervisor: Supervisor, mountpoint: str, status: Callable[[], str]) -> None:
        self._supervisor = supervisor
        self._mountpoint = mountpoint
        self._status = status
        self._mounted = trio.Event()

    def mounted(self) -> None:
        """The mount is made; that it answers is still to be seen."""
        self._mounted.set()

    async def run(self) -> None:
        """Until cancelled. Does nothing if there is no supervisor."""
        supervisor = self._supervisor
        if not supervisor.listens:
            return
        await self._mounted.wait()
        while not await self._asked():  # noqa: ASYNC110 -- the kernel gives no sign when it begins to
            await trio.sleep(_ASK_AGAIN_S)
        supervisor.ready(self._status())
        watchdog_s = supervisor.watchdog_s
        ask_every_s = watchdog_s / 3 if watchdog_s else float("inf")
        asked_s = trio.current_time()
        while True:
            await trio.sleep(min(LOOK_EVERY_S, ask_every_s))
            supervisor.status(self._status())
            if trio.current_time() - asked_s < ask_every_s:
                continue
            asked_s = trio.current_time()
            if await self._asked():
                supervisor.alive()

    async def _asked(self) -> bool:
        """As `answers`; that it takes long is told, because the supervisor will not wait for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_if_silent)
            answered = await self.answers()
            nursery.cancel_scope.cancel()
        return answered

    async def _tell_if_silent(self) -> None:
        await trio.sleep(SILENT_AFTER_S)
        words = f"{self._mountpoint} has not answered another process for {SILENT_AFTER_S:g} s"
        note(log, Event.MOUNT_SILENT, words, mountpoint=self._mountpoint)

    async def answers(self) -> bool:
        """Whether the mount answers another process; waits for it as long as it takes."""
        done = await trio.run_process(
            _question(self._mountpoint),
            cwd="/",
            capture_stdout=True,
            capture_stderr=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            words = f"{self._mountpoint} does not answer: {said}"
            note(log, Event.MOUNT_SILENT, words, mountpoint=self._mountpoint)
        return done.returncode == 0


def _question(mountpoint: str) -> list[str]:
    stat = shutil.which("stat")
    if stat is None:
        return [sys.executable, "-I", "-S", "-c", _PYTHON, mountpoint]
    return [stat, "-f", "--", mountpoint]


def status_line(lessee: Lessee, work: Work) -> str:
    """How a mount stands, for `systemctl status`."""
    leases, dirty = len(lessee.view.leases), len(work.intents)
    ledger = "reachable" if lessee.ledger_reachable else "unreachable"
    return f"{lessee.identity.agent}: {leases} leases held, {dirty} dirty paths, ledger {ledger}"
