"""A process of an ordinary user that tries to get past a mount, and what came of it.

What it tries is Python for the system's own interpreter, which needs nothing of ours: `attempt` runs it in a child
with the user's ids and no capability, in the directory given, behind `PRELUDE`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, NamedTuple

AGENT_UID = 65534
"""The user (nobody) whose files the tree's are, and who runs the agents' processes. fusermount3 wants one with a name."""
OTHER_UID = 1
"""Another ordinary user (daemon)."""

PRELUDE = r"""
import ctypes, errno, fcntl, json, mmap, os, signal, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
given, said = sys.argv[1:], None
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def call(number, *arguments):
    return checked(libc.syscall(number, *[ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]))
def refused(do):
    try:
        do()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def lines():
    for line in sys.stdin:
        yield line.strip()
def tell(text):
    print(text, flush=True)
"""
URING = r"""
def uring(opcode, fd, address, length, offset, flags=0):
    # io_uring(7) by hand: one entry each, its queues mapped (struct io_uring_params, io_uring_sqe).
    parameters = (ctypes.c_uint32 * 30)()
    ring = call(425, 4, ctypes.byref(parameters))
    sq, cq = parameters[10:20], parameters[20:30]
    size = max(sq[6] + 4 * parameters[0], cq[5] + 16 * parameters[1])
    queue = mmap.mmap(ring, size, offset=0)
    entries = mmap.mmap(ring, 64 * parameters[0], offset=0x10000000)
    entries[:64] = struct.pack("<BBHiQQIIQ24x", opcode, 0, 0, fd, offset, address, length, flags, 7)
    struct.pack_into("<I", queue, sq[6], 0)
    struct.pack_into("<I", queue, sq[1], 1)
    call(426, ring, 1, 1, 1, 0, 0)
    result = struct.unpack_from("<Qi", queue, cq[5])[1]
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
"""
_RUN = r"""
try:
    exec(compile(given.pop(0), "attempt", "exec"))
    outcome = "done"
except OSError as error:
    outcome = errno.errorcode.get(error.errno, str(error))
print(json.dumps([outcome, said]), flush=True)
"""


class Outcome(NamedTuple):
    """`done`, or the name of the errno that ended the attempt; and what its code put into `said`."""

    how: str
    said: Any


@dataclass(frozen=True)
class Intruder:
    """The user `uid`, at work in `directory`."""

    directory: str
    uid: int = AGENT_UID
    environment: dict[str, str] = field(default_factory=dict)

    def attempt(self, code: str, *arguments: str) -> Outcome:
        """Run `code`; its `given` are the arguments."""
        done = subprocess.run(
            self._python(code, *arguments),
            cwd=self.directory,
            env=self._env(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = done.stdout.splitlines()
        assert lines, done
        return Outcome(*json.loads(lines[-1]))

    def shell(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script; its `$1` and so on are the arguments."""
        return subprocess.run(
            [*as_ordinary_user(self.uid), "sh", "-c", script, "sh", *arguments],
            cwd=self.directory,
            env=self._env(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def stays(self, code: str, *arguments: str) -> Staying:
        """Begin `code` and leave it running: it hears lines by `lines()`, and says some by `tell`."""
        process = subprocess.Popen(
            self._python(code, *arguments),
            cwd=self.directory,
            env=self._env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return Staying(process)

    def _python(self, code: str, *arguments: str) -> list[str]:
        return [*as_ordinary_user(self.uid), python(), "-I", "-c", PRELUDE + _RUN, code, *arguments]

    def _env(self) -> dict[str, str]:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **self.environment}


class Staying:
    """A process that goes on while the test does something else."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def hear(self) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self, line: str = "") -> None:
        """Let it read one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def outcome(self) -> Outcome:
        """How it ended."""
        out, _ = self.process.communicate(timeout=60)
        return Outcome(*json.loads(out.splitlines()[-1]))


def as_ordinary_user(uid: int) -> list[str]:
    """The beginning of a command line that runs the rest as that user, without a capability or another group.

    The bounding set stays: without it fusermount3 could not do what it may for any user.
    """
    ids = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return ["setpriv", *ids, "--inh-caps=-all", "--"]


def python() -> str:
    """An interpreter that every user can run; the one that runs the tests may lie in somebody's home."""
    return shutil.which("python3", path=os.defpath) or sys.executable
