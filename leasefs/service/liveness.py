"""Whether the process behind a session is known to be gone.

A dead holder's leases can be freed at once; a sleeping one's cannot, it may wake and write (P3). So only proof
counts. A session names its process as `<boot id>:<pid namespace>:<pid>:<start time>`, the start time in clock
ticks as field 22 of /proc/PID/stat (proc_pid_stat(5)); pid and start time together are never reused in a boot.
"""

from __future__ import annotations

import os

_STATE_FIELD, _START_FIELD = 3, 22
_DEAD_STATES = frozenset({b"Z", b"X"})


def known_dead(process: str, proc: str = "/proc") -> bool:
    """Whether `process` certainly does not run any more.

    False in any doubt: another host or boot, another pid namespace, a name we cannot read, no /proc.
    """
    parts = process.split(":")
    if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
        return False
    try:
        if [parts[0], parts[1]] != _here(proc):
            return False
        return _start_ticks(proc, int(parts[2])) != int(parts[3])
    except OSError:
        return False


def _here(proc: str) -> list[str]:
    with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip()
    return [boot_id, str(os.stat(f"{proc}/self/ns/pid").st_ino)]


def _start_ticks(proc: str, pid: int) -> int | None:
    """When the process began; None if there is none. A zombie writes nothing any more, so it is none."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may itself hold any of them.
    after_name = line[line.rindex(b")") + 2 :].split()
    if after_name[_STATE_FIELD - 3] in _DEAD_STATES:
        return None
    return int(after_name[_START_FIELD - 3])
