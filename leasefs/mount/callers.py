"""Whether a caller is about to take a name away that something is mounted on.

The kernel refuses to remove or rename a mountpoint before it asks us (EBUSY, fs/namei.c), and a LOOKUP
does not say what it is for. The caller sits in its system call until we answer, so /proc tells
(proc_pid_syscall(5), proc_pid_mem(5)): readable for those who may trace it, which who may mount usually
can. What cannot be read or understood counts as no; a wrong answer costs speed or an EBUSY, never more.
"""

from __future__ import annotations

import os
import platform

_AT_REMOVEDIR = 0x200
_PAGE = 4096

# Number -> which arguments are paths that lose or get a name (syscalls.tbl).
_CALLS_OF = {
    "x86_64": {82: (0, 1), 84: (0,), 263: (1,), 264: (1, 3), 316: (1, 3)},
    "aarch64": {35: (1,), 38: (1, 3), 276: (1, 3)},
}
_CALLS = _CALLS_OF.get(platform.machine(), {})
_UNLINKAT = {"x86_64": 263, "aarch64": 35}.get(platform.machine())


def takes_name(thread: int, name: bytes) -> bool:
    """Whether that thread is inside rename(2) or rmdir(2), or one of their kind, of a path ending in `name`."""
    try:
        with open(f"/proc/{thread}/syscall", encoding="ascii") as file:
            fields = file.read().split()
        number, values = int(fields[0]), [int(value, 16) for value in fields[1:]]
    except (OSError, ValueError, IndexError):  # gone, not ours to see, or "running"
        return False
    paths = _CALLS.get(number, ())
    if number == _UNLINKAT and not values[2] & _AT_REMOVEDIR:
        return False
    return any(_last_name(thread, values[at]) == name for at in paths)


def _last_name(thread: int, address: int) -> bytes | None:
    try:
        memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        path = _string(memory, address)
    except (OSError, OverflowError):
        return None
    finally:
        os.close(memory)
    return path.rstrip(b"/").rpartition(b"/")[2]


def _string(memory: int, address: int) -> bytes:
    found = b""
    while len(found) < _PAGE and b"\0" not in found:
        # Up to the page's end: the next one need not be there.
        found += os.pread(memory, _PAGE - address % _PAGE, address)
        address += _PAGE - address % _PAGE
    return found.partition(b"\0")[0]
