"""A ledger that can be ended and begun again in every way that a host has.

On its own socket or on one passed to it, of one build or another, by SIGTERM or SIGKILL.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import leasefs

if TYPE_CHECKING:
    import random

_READY_WITHIN_S = 60.0
# What systemd does between fork(2) and execve(2): the pid is known only there.
_PASSING = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); "
    "os.execv(sys.executable, [sys.executable, '-m', 'leasefs.service', *sys.argv[2:]])"
)


def second_build(directory: str) -> str:
    """Copy the package below `directory` as another version; the directory, for PYTHONPATH."""
    source = os.path.dirname(os.path.abspath(leasefs.__file__))
    target = os.path.join(directory, "leasefs")
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    init = os.path.join(target, "__init__.py")
    with open(init, encoding="utf-8") as file:
        text = file.read()
    changed = re.sub(r'__version__ = "[^"]*"', '__version__ = "99.0.0"', text)
    if changed == text:
        raise RuntimeError(f"{init} names no version")
    with open(init, "w", encoding="utf-8") as file:
        file.write(changed)
    return directory


class Served:
    """The ledger below `directory`. With `passed`, on a socket that outlives it."""

    def __init__(self, directory: str, *, passed: bool, builds: tuple[str, ...] = ("",)) -> None:
        """`builds` are directories for PYTHONPATH, "" the package that runs here; each start takes the next one."""
        self.socket_path = os.path.join(directory, "ledger.sock")
        self.url = f"unix:{self.socket_path}"
        self.store = os.path.join(directory, "store")
        self.starts = 0
        self._builds = builds
        self._passed: socket.socket | None = None
        if passed:
            self._passed = socket.socket(socket.AF_UNIX)
            self._passed.bind(self.socket_path)
            self._passed.listen(512)
        self.process = self._begun()

    def again(self, rng: random.Random) -> str:
        """End it and begin it; how it was ended."""
        number = rng.choice((signal.SIGTERM, signal.SIGKILL))
        self.process.send_signal(number)
        code = self.process.wait(_READY_WITHIN_S)
        if number == signal.SIGTERM and code != 0:
            raise RuntimeError(f"the ledger ended with {code}")
        self.process = self._begun()
        return number.name

    def end(self) -> None:
        """SIGTERM, and wait."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(_READY_WITHIN_S)
        if self._passed is not None:
            self._passed.close()
            os.unlink(self.socket_path)

    def begun_again(self) -> subprocess.Popen[bytes]:
        """A new process, once it is ready; the former one has ended."""
        return self._begun()

    def _begun(self) -> subprocess.Popen[bytes]:
        build = self._builds[self.starts % len(self._builds)]
        self.starts += 1
        environment = dict(os.environ)
        if build:
            environment["PYTHONPATH"] = build
        ready, ready_child = os.pipe()
        options = ["--store", self.store, "--ready-fd", str(ready_child)]
        fds = [ready_child]
        if self._passed is None:
            where = ["-m", "leasefs.service", "--socket", self.socket_path]
        else:
            where = ["-c", _PASSING, str(self._passed.fileno())]
            fds.append(self._passed.fileno())
        with open(f"{self.store}.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, *where, *options],
                pass_fds=fds,
                env=environment,
                stderr=log,
                cwd="/",
            )
        os.close(ready_child)
        with open(ready, "rb") as ready_end:
            if ready_end.read() != b"ready\n":
                raise RuntimeError(f"no ledger; see {self.store}.log")
        return process
