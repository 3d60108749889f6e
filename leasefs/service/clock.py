"""The ledger's clock: seconds that never go back and that no wall clock can move.

    ledger time = CLOCK_BOOTTIME + offset

Deadlines of leases stand in the log as ledger time, so it must mean the same to every server that ever
serves that log (P3: expiry comes late, never early). The offset is chosen when a server starts:

* A new log begins at the wall clock's time, so that the numbers mean something to a person. That is
  the only time that the wall clock is asked; stepping it later has no effect.
* Restarted in the same boot, the server keeps the offset of the one before: CLOCK_BOOTTIME counted on
  while no server ran, through suspend too, and so did the holders' clocks.
* After a reboot CLOCK_BOOTTIME began anew, and nobody knows for how long the machine was off (the wall
  clock may have been wrong before or be wrong now). The time goes on from the last event: leases
  outlive the time off, which only makes them end later.
* If the same boot's clock says less than the log's last event (a restored VM, another time namespace), it
  also goes on from there.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.client.process import clock_offset

if TYPE_CHECKING:
    from leasefs.core.clock import Clock


class SystemClock:
    """This machine's CLOCK_BOOTTIME and wall clock (clock_gettime(2))."""

    def now_s(self) -> float:
        """Seconds since boot, time suspended included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall_s(self) -> float:
        """Seconds since the epoch."""
        return time.clock_gettime(time.CLOCK_REALTIME)


def boot_identity() -> str:
    """Names what CLOCK_BOOTTIME counts from: this boot, and the time namespace with its offset (time_namespaces(7))."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip()
    try:
        namespace = os.stat("/proc/self/ns/time").st_ino
    except FileNotFoundError:  # a kernel without time namespaces: all processes read one clock
        return boot_id
    offset = clock_offset()
    return f"{boot_id}:{namespace}{':' if offset else ''}{offset}"


@dataclass(frozen=True, slots=True)
class ClockMark:
    """How a former server's clock ran: which boot it counted from, and its offset in seconds."""

    boot: str
    offset_s: float


class LedgerClock:
    """A `leasefs.core.clock.Clock` that reads ledger time."""

    def __init__(self, source: Clock, offset_s: float) -> None:
        self._source = source
        self._offset_s = offset_s

    def now_s(self) -> float:
        """Ledger time, in seconds."""
        return self._source.now_s() + self._offset_s

    def wall_s(self) -> float:
        """Seconds since the epoch, for people and the log; decides nothing."""
        return self._source.wall_s()

    def boottime_s(self) -> float:
        """What CLOCK_BOOTTIME says, for the next server of this log."""
        return self._source.now_s()


def clock_after(
    source: Clock, boot: str, last_at_s: float | None, mark: ClockMark | None
) -> LedgerClock:
    """The clock of a server that goes on after an event at `last_at_s`; None for a new log.

    `boot` is `boot_identity()` now, `mark` what the last server left of its own clock.
    """
    boottime_s = source.now_s()
    if last_at_s is None:
        return LedgerClock(source, source.wall_s() - boottime_s)
    if mark is not None and mark.boot == boot and boottime_s + mark.offset_s >= last_at_s:
        return LedgerClock(source, mark.offset_s)
    return LedgerClock(source, last_at_s - boottime_s)
