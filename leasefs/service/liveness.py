"""Whether the process behind a session is known to be gone.

A dead holder's leases can be freed at once; a sleeping one's cannot, it may wake and write (P3). So only proof
counts. A session names its process as `<boot id>:<namespaces>:<pid>:<start time>`, the start time in clock
ticks as field 22 of /proc/PID/stat (proc_pid_stat(5)); pid and start time together are never reused in a boot. Both
mean something only in their pid and time namespace (`client.process.namespaces`).
"""

from __future__ import annotations

import os

from leasefs.client.process import namespaces

_STATE_FIELD, _THREADS_FIELD, _START_FIELD = 3, 20, 22
_DEAD_STATES = frozenset({b"Z", b"X"})


def known_dead(process: str, proc: str = "/proc") -> bool:
    """Whether `process` certainly does not run any more.

    False in any doubt: another host or boot, another pid or time namespace, a name we cannot read, no /proc.
    """
    parts = process.split(":")
    if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
        return False
    try:
        if [parts[0], parts[1]] != _here(proc):
            return False
        pid = int(parts[2])
        return not _exists(pid) or _start_ticks(proc, pid) != int(parts[3])
    except (OSError, OverflowError):
        return False


def _here(proc: str) -> list[str]:
    with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip()
    return [boot_id, namespaces(proc)]


def _exists(pid: int) -> bool:
    """Asks by kill(2): with hidepid (proc(5)) a living process of another user has no place in /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_ticks(proc: str, pid: int) -> int | None:
    """When the process began; None for a zombie, unless other threads of it go on without the first.

    Raises:
        OSError: it cannot be seen.
    """
    with open(f"{proc}/{pid}/stat", "rb") as file:
        line = file.read()
    # The program's name stands in parentheses and may itself hold any of them.
    after_name = line[line.rindex(b")") + 2 :].split()
    alone = int(after_name[_THREADS_FIELD - 3]) <= 1
    if after_name[_STATE_FIELD - 3] in _DEAD_STATES and alone:
        return None
    return int(after_name[_START_FIELD - 3])
