"""Daemons that were killed and yet hang in the kernel, as tests can have them at will."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from leasefs.client import paths
from leasefs.client.process import process_identity
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIDFD_GETFD = 438
# exit(2) of the first thread alone; another one stays.
_WITHOUT_ITS_FIRST_THREAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall(60, 0)
"""


@contextmanager
def killed_but_hanging(pid: int) -> Iterator[None]:
    """As while a thread of it waits in the kernel: its end of the connection stays (pidfd_getfd(2)). Needs root."""
    fds = Path(f"/proc/{pid}/fd")
    wanted = next(int(fd) for fd in os.listdir(fds) if os.readlink(fds / fd) == "/dev/fuse")
    pidfd = os.pidfd_open(pid)
    kept = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, wanted, 0)
    os.close(pidfd)
    assert kept >= 0, os.strerror(ctypes.get_errno())
    try:
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not os.path.exists(f"/proc/{pid}"), what="the daemon's end")
        yield
    finally:
        os.close(kept)


@contextmanager
def killed_with_a_thread_left(pid: int) -> Iterator[None]:
    """The same, and while its first thread is gone, another one is not: a process stands in for it in the registry."""
    entry = Path(paths.mounts_dir(), f"{pid}.json")
    facts = json.loads(entry.read_text())
    with (
        subprocess.Popen([sys.executable, "-c", _WITHOUT_ITS_FIRST_THREAD]) as process,
        killed_but_hanging(pid),
    ):
        try:
            stat = Path(f"/proc/{process.pid}/stat")
            eventually(lambda: b") Z " in stat.read_bytes(), what="the end of its first thread")
            facts |= {"pid": process.pid, "process": process_identity(process.pid)}
            assert facts["process"]
            entry.unlink()
            entry.with_name(f"{process.pid}.json").write_text(json.dumps(facts))
            yield
        finally:
            process.kill()
