"""Naming a process so that a dead one can be told from one that only sleeps."""

from __future__ import annotations

import os


def clock_offset(proc: str = "/proc") -> str:
    """How far CLOCK_BOOTTIME is ahead here of the machine's, in this time namespace (time_namespaces(7)).

    `<seconds>.<nanoseconds>`, empty for none. The number of a namespace would not do: the kernel gives it to the next.
    """
    try:
        with open(f"{proc}/self/timens_offsets", encoding="ascii") as file:
            offsets = dict(line.split(None, 1) for line in file)
        seconds, nanoseconds = map(int, offsets["boottime"].split())
    except (
        FileNotFoundError,
        KeyError,
    ):  # a kernel without time namespaces: all processes read one clock
        return ""
    return f"{seconds}.{nanoseconds:09d}" if seconds or nanoseconds else ""


def namespaces(proc: str = "/proc") -> str:
    """What process ids and start times mean only in: the pid namespace, with `+<clock_offset()>` if there is one."""
    offset = clock_offset(proc)
    return f"{os.stat(f'{proc}/self/ns/pid').st_ino}{'+' if offset else ''}{offset}"


def process_identity(pid: int) -> str:
    """`<boot id>:<namespaces()>:<pid>:<start ticks>`; empty if the process is not there any more.

    The four together are never used twice: a pid alone is (proc(5), fields of /proc/PID/stat).
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
        namespace = namespaces()
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        state, threads, start_ticks = fields[0], int(fields[17]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return ""
    if state in {b"Z", b"X"} and threads <= 1:
        return ""  # a zombie that nobody has reaped yet
    return f"{boot_id}:{namespace}:{pid}:{start_ticks}"


def is_killed(pid: int) -> bool:
    """Whether the process's first thread has ended, while others of it may still hang in the kernel.

    A daemon of ours never ends its first thread alone. So all of its threads were told to end, and one that waits for
    a lock there does nothing more once it has it.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in {b"Z", b"X"}
    except (OSError, IndexError):
        return False


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped (SIGSTOP, Ctrl-Z, a debugger); False if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in {b"T", b"t"}
    except (OSError, IndexError):
        return False


def status_fields(process: int | str, *names: str) -> dict[str, str]:
    """These fields of a process or thread, by name and as they stand (proc_pid_status(5)); "self" is this one.

    Raises:
        OSError: it is gone, or out of sight.
    """
    with open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {name: fields[name].strip() for name in names}


def program_name(pid: int) -> str:
    """What the process runs: its command's last path component, or `comm`; `?` if it is gone."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().decode("utf-8", "replace").strip() or "?"
    except OSError:
        return "?"
