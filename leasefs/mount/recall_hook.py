"""The command that whoever mounts may have run at each recall (`leasefs mount --on-recall`).

It is theirs and nobody else's: what a repository says never runs in somebody's mount. It runs beside the mount's
loop, which serves it: so it is started outside the mount and goes there by itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasefs.client.recalls import Recall

log = logging.getLogger(__name__)

WITHIN_S = 60.0
# More recalls than these at once wait for each other.
AT_ONCE = 8
_UMASK = 0o022
_REAP_WITHIN_S = 5.0
_IN_THE_MOUNT = 'cd -- "$LEASEFS_MOUNTPOINT" && eval "$LEASEFS_ON_RECALL"'


class RecallHook:
    """Runs `command`, if there is one, through a shell in the mount at `mountpoint`."""

    def __init__(self, command: str, mountpoint: str, *, within_s: float = WITHIN_S) -> None:
        self._command = command
        self._mountpoint = mountpoint
        self._within_s = within_s
        self._places = trio.CapacityLimiter(AT_ONCE)

    async def run(self, recall: Recall, left_s: float) -> None:
        """Run it to its end, which comes after `within_s` at the latest; what goes wrong is logged."""
        if not self._command:
            return
        async with self._places:
            try:
                await self._run(self._environment(recall, left_s))
            except OSError as error:
                log.warning("the command for recalls cannot be run: %s", error)

    def _environment(self, recall: Recall, left_s: float) -> dict[str, str]:
        return {
            **os.environ,
            "LEASEFS_ON_RECALL": self._command,
            "LEASEFS_MOUNTPOINT": self._mountpoint,
            "LEASEFS_LEASE": recall.lease_id,
            "LEASEFS_RECALL_BY": recall.by,
            "LEASEFS_RECALL_REASON": recall.reason,
            "LEASEFS_RECALL_WITHIN_S": f"{max(0.0, left_s):.0f}",
        }

    async def _run(self, environment: Mapping[str, str]) -> None:
        process = await trio.lowlevel.open_process(
            ["/bin/sh", "-c", _IN_THE_MOUNT],
            stdin=subprocess.DEVNULL,
            stdout=2,
            stderr=2,
            cwd="/",
            env=environment,
            start_new_session=True,
            umask=_UMASK,
        )
        code = None
        try:
            with trio.move_on_after(self._within_s):
                code = await process.wait()
        finally:
            if code is None:
                log.warning(
                    "the command for recalls took too long, or the mount ends: it is killed"
                )
                await _kill(process)
        if code:
            log.warning("the command for recalls ended with %d", code)


async def _kill(process: trio.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with trio.move_on_after(_REAP_WITHIN_S, shield=True):
        await process.wait()
