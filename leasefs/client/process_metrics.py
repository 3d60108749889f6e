"""What every process tells a monitor of itself, under the names that all Prometheus clients use for it.

https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics, read from proc(5).
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import TYPE_CHECKING

from leasefs.core.exposition import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.exposition import Family

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = resource.getpagesize()
# Fields of /proc/PID/stat behind the name in parentheses (proc_pid_stat(5) counts from 1, the name is 2).
_UTIME, _STIME, _START, _VSIZE, _RSS = (field - 3 for field in (14, 15, 22, 23, 24))


def process_families() -> Iterator[Family]:
    """Of this process. What /proc does not tell is left out."""
    with suppress(OSError):
        yield from _from_stat()
    with suppress(OSError):
        opened = len(os.listdir("/proc/self/fd"))
        yield gauge("process_open_fds", "Number of open file descriptors.", opened)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("process_max_fds", "Maximum number of open file descriptors.", most)


def _from_stat() -> Iterator[Family]:
    with open("/proc/self/stat", "rb") as file:
        line = file.read()
    fields = line[line.rindex(b")") + 2 :].split()
    cpu_s = (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S
    yield counter(
        "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu_s
    )
    yield gauge(
        "process_virtual_memory_bytes", "Virtual memory size in bytes.", int(fields[_VSIZE])
    )
    yield gauge(
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        int(fields[_RSS]) * _PAGE_BYTES,
    )
    started_s = int(fields[_START]) / _TICKS_PER_S + _boot_wall_s()
    yield gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        round(started_s, 2),
    )


def _boot_wall_s() -> float:
    with open("/proc/stat", "rb") as file:
        for line in file:
            if line.startswith(b"btime "):
                return float(line.split()[1])
    return 0.0
