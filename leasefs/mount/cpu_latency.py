"""How long idle processors may take to wake up, asked of the kernel while requests follow each other.

Each request puts its caller to sleep and wakes it again, mostly on another processor than the daemon's. On a virtual
machine the waking of one that has halted takes longer than all that is done for the request. A process may say how long
it may take at most (Documentation/power/pm_qos_interface.rst): what is written to /dev/cpu_dma_latency holds until the
file is closed. With 0 an idle processor looks for work instead of halting.

That costs power, on every processor there is. So it is asked only while requests come in a row, and, where nobody says
otherwise, only on virtual machines with few processors, where those are the ones at work anyway.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import trio

from leasefs.core.settings import CPU_LATENCIES

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

_AUTO, _LOW, _ = CPU_LATENCIES

_DEVICE = "/dev/cpu_dma_latency"
_CPUINFO = "/proc/cpuinfo"
_NO_LATENCY = bytes(4)  # a 32-bit number of microseconds

# So many waits for a request within this time are work; fewer are somebody who looks around.
_IN_A_ROW = 8
_WINDOW_S = 0.02
# Work has ended when no request came for so long.
_QUIET_S = 0.03
_FEW_PROCESSORS = 4


def _is_virtual() -> bool:
    """Whether a hypervisor says that it is one, as those of x86 do (CPUID.1:ECX[31]); what does not tell is a machine."""
    try:
        lines = Path(_CPUINFO).read_text(errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return "hypervisor" in flags.split()


def latency_of(word: str) -> CpuLatency | None:
    """What keeps this machine's processors awake, by one of `CPU_LATENCIES`; None if nothing is to."""
    if word == _LOW:
        return CpuLatency(refused=logging.WARNING)
    few = (os.cpu_count() or 1) <= _FEW_PROCESSORS
    return CpuLatency() if word == _AUTO and few and _is_virtual() else None


class CpuLatency:
    """Asks for quick waking while there is work. Where that is not permitted, everything goes on without."""

    def __init__(
        self,
        device: str = _DEVICE,
        now_s: Callable[[], float] = perf_counter,
        *,
        refused: int = logging.INFO,
    ) -> None:
        """`now_s` is the clock by which waits are counted; `refused` the level of logging for where it is not permitted."""
        self._device = device
        self._now_s = now_s
        self._refused = refused
        self._window_began_s = 0.0
        self._in_window = 0
        self._waits = 0
        self._fd = -1
        self._is_asked = trio.Event()
        self._is_permitted = True

    @property
    def is_asked(self) -> bool:
        """Whether the kernel is asked now."""
        return self._fd >= 0

    def waited(self) -> None:
        """A request is waited for; called for each, so that it has to be cheap."""
        now_s = self._now_s()
        if now_s - self._window_began_s > _WINDOW_S:
            self._window_began_s, self._in_window = now_s, 0
        self._in_window += 1
        self._waits += 1
        if self._in_window == _IN_A_ROW and self._fd < 0 and self._is_permitted:
            self._ask()

    def _ask(self) -> None:
        try:
            self._fd = os.open(self._device, os.O_WRONLY | os.O_CLOEXEC)
            os.write(self._fd, _NO_LATENCY)
        except OSError as error:
            self._let_go()
            self._is_permitted = False
            words = "mount.cpu_latency has no effect: %s: %s"
            log.log(self._refused, words, self._device, error.strerror)
        else:
            self._is_asked.set()

    async def run(self) -> None:
        """Let processors halt again when there is no work; until cancelled."""
        try:
            while True:
                await self._is_asked.wait()
                await self._until_quiet()
                self._let_go()
                self._is_asked = trio.Event()
        finally:
            self._let_go()

    async def _until_quiet(self) -> None:
        seen = -1
        while seen != self._waits:
            seen = self._waits
            await trio.sleep(_QUIET_S)

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
