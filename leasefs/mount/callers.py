"""What a caller is about to do at a name that something is mounted on.

The kernel refuses to remove or rename a mountpoint before it asks us (EBUSY, fs/namei.c), and a LOOKUP
does not say what it is for. The caller sits in its system call until we answer, so /proc tells
(proc_pid_syscall(5), proc_pid_mem(5)): readable for those who may trace it, which who may mount usually
can. A wrong answer costs speed or an EBUSY, never more.

Reading memory waits for its lock, and somebody in the caller's process may hold that and wait for an answer
of ours: one that maps something else over pages of the mount which are still to be written. So a thread of
its own reads, and is not waited for any longer than it mostly takes.
"""

from __future__ import annotations

import os
import platform
import threading
from enum import Enum, auto
from queue import SimpleQueue

from leasefs.mount.proc_file import read_proc

_AT_REMOVEDIR = 0x200
_PAGE = 4096
# Reading takes some microseconds; more than this is a lock that somebody holds, or a machine under such load
# that nobody counts on a few milliseconds.
_WITHIN_S = 0.02


class Intent(Enum):
    """What is known of the caller's system call."""

    TAKES = auto()  # it removes or renames the very name
    ENDS = auto()  # it means the very name, perhaps to take it next
    REMOVES = auto()  # it removes something below
    PASSES = auto()  # it goes through to something below
    UNKNOWN = auto()


_Paths = dict[int, tuple[int, ...]]

# Number -> which arguments are paths (syscalls.tbl). Of those that take a name, of those that take one or
# remove a file, and of the others.
_TAKING: dict[str, _Paths] = {
    "x86_64": {82: (0, 1), 84: (0,), 264: (1, 3), 316: (1, 3)},
    "aarch64": {38: (1, 3), 276: (1, 3)},
}
_RMDIR = {"x86_64": 84}
_UNLINKING: dict[str, _Paths] = {"x86_64": {87: (0,), 263: (1,)}, "aarch64": {35: (1,)}}
_UNLINKAT = {"x86_64": 263, "aarch64": 35}
_FIRST_IS_PATH = {
    "x86_64": "2 4 6 21 59 76 80 83 85 86 89 90 92 94 133 137 188 189 191 192 194 195",
    "aarch64": "5 6 8 9 11 12 14 15 43 45 49 221",
}
_SECOND_IS_PATH = {
    "x86_64": "88 254 257 258 259 260 262 265 267 268 269 280 322 332 437 439 452",
    "aarch64": "27 33 34 37 48 53 54 56 78 79 88 281 291 437 439 452",
}
_MACHINE = platform.machine()
_PATHS: _Paths = {
    **dict.fromkeys(map(int, _FIRST_IS_PATH.get(_MACHINE, "").split()), (0,)),
    **dict.fromkeys(map(int, _SECOND_IS_PATH.get(_MACHINE, "").split()), (1,)),
    **_TAKING.get(_MACHINE, {}),
    **_UNLINKING.get(_MACHINE, {}),
}


class _Question:
    """What a thread means to do at a name. `answered` can be acquired once that is known."""

    __slots__ = ("answer", "answered", "name", "thread")

    def __init__(self, thread: int, name: bytes) -> None:
        self.thread = thread
        self.name = name
        self.answer = Intent.UNKNOWN
        self.answered = threading.Lock()
        self.answered.acquire()


class Callers:
    """Tells what callers mean to do, without ever waiting for them."""

    def __init__(self) -> None:
        self._questions: SimpleQueue[_Question] = SimpleQueue()
        self._reader: threading.Thread | None = None
        # Whose memory could not be read in time.
        self._stuck: _Question | None = None

    def intent(self, thread: int, name: bytes) -> Intent:
        """What the thread, which is in a system call, means to do at `name`; UNKNOWN if that takes long."""
        if self._stuck is not None and not self._stuck.answered.acquire(blocking=False):
            return Intent.UNKNOWN
        self._stuck = None
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, name="callers", daemon=True)
            self._reader.start()
        question = _Question(thread, name)
        self._questions.put(question)
        if not question.answered.acquire(timeout=_WITHIN_S):
            self._stuck = question
            return Intent.UNKNOWN
        return question.answer

    def _read(self) -> None:
        while True:
            question = self._questions.get()
            question.answer = intent(question.thread, question.name)
            question.answered.release()


def intent(thread: int, name: bytes) -> Intent:
    """What the thread, which is in a system call, means to do at the directory entry `name`."""
    try:
        fields = read_proc(f"/proc/{thread}/syscall", _PAGE).split()
        number, values = int(fields[0]), [int(value, 16) for value in fields[1:]]
        at_name = name in _last_names(thread, [values[at] for at in _PATHS[number]])
    except (OSError, OverflowError, ValueError, LookupError):
        return (
            Intent.UNKNOWN
        )  # gone, not ours to see, "running", or a call that is not listed above
    unlinks = number in _UNLINKING[_MACHINE]
    removes_directory = number == _UNLINKAT[_MACHINE] and bool(values[2] & _AT_REMOVEDIR)
    if at_name:
        takes = removes_directory or number in _TAKING[_MACHINE]
        return Intent.TAKES if takes else Intent.ENDS
    return Intent.REMOVES if unlinks or number == _RMDIR.get(_MACHINE) else Intent.PASSES


def _last_names(thread: int, addresses: list[int]) -> list[bytes]:
    memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        paths = [_string(memory, address) for address in addresses if address]
    finally:
        os.close(memory)
    return [path.rstrip(b"/").rpartition(b"/")[2] for path in paths]


def _string(memory: int, address: int) -> bytes:
    found = b""
    while len(found) < _PAGE and b"\0" not in found:
        # Up to the page's end: the next one need not be there.
        found += os.pread(memory, _PAGE - address % _PAGE, address)
        address += _PAGE - address % _PAGE
    return found.partition(b"\0")[0]
