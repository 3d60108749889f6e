"""Run the release gate's checks: a project's own commands on the leased paths (design, section 6).

They run in the process of who releases, as that user, and never in a daemon: what a repository says is to be run has
the rights of the one who trusts it. A lease never claims that the work is right; these may.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasefs.vcs.project_file import Check

OUTPUT_LIMIT_BYTES = 1 << 20
PATHS_VARIABLE = "LEASEFS_PATHS"
LEASE_VARIABLE = "LEASEFS_LEASE"
PATHS_NAME = "paths"
# After its end a check's descendants may still hold its output open; they are killed, and this long waited for.
DRAIN_S = 1.0
# How long a check that ran out of time may take to clear up after SIGTERM.
GRACE_S = 2.0

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How one check ended: `status` is its exit status, or minus the number of the signal that ended it.

    `status` is None if it could not be started; `problem` says why, or that it took too long. `output` is the file that
    holds what it wrote on stdout and stderr, the last mebibyte of it if `output_cut`.
    """

    check: Check
    status: int | None
    problem: str
    output: str
    output_cut: bool

    @property
    def passed(self) -> bool:
        """Whether the check has nothing against the release."""
        return self.status == 0 and not self.problem


def run_checks(
    checks: Sequence[Check],
    *,
    cwd: str,
    paths: Sequence[bytes],
    lease: str,
    timeout_s: float,
    output_directory: str,
    environment: Mapping[str, str] | None = None,
) -> list[CheckResult]:
    """Run each check in turn, also after one that failed. Blocks.

    Args:
        checks: the commands.
        cwd: the tree's root, as the caller sees it.
        paths: the leased paths in question; NUL after each in the file that LEASEFS_PATHS names.
        lease: what LEASEFS_LEASE says.
        timeout_s: seconds that each check may take; then its whole process group is ended.
        output_directory: where `paths` and `check-1.log`, `check-2.log` ... go, in place of older ones.
        environment: the rest of the environment; the caller's own if not given.

    Raises:
        OSError: the directory cannot be written.
    """
    paths_file = os.path.join(output_directory, PATHS_NAME)
    _write(paths_file, [path + b"\0" for path in paths])
    surroundings = dict(os.environ if environment is None else environment)
    surroundings |= {PATHS_VARIABLE: paths_file, LEASE_VARIABLE: lease}
    results = []
    for number, check in enumerate(checks, 1):
        output = os.path.join(output_directory, f"check-{number}.log")
        results.append(_run(check, cwd, surroundings, timeout_s, output))
    return results


def _run(
    check: Check, cwd: str, environment: Mapping[str, str], timeout_s: float, output: str
) -> CheckResult:
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            child = subprocess.Popen(
                check.arguments,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=write_fd,
                stderr=write_fd,
                start_new_session=True,
            )
        except OSError as error:
            _write(output, [])
            problem = f"{check.shown} cannot be run: {error.strerror}"
            return CheckResult(check, None, problem, output, output_cut=False)
        finally:
            os.close(write_fd)
        tail = _Tail(read_fd, OUTPUT_LIMIT_BYTES)
        in_time = _end_of(child, tail, timeout_s)
    finally:
        os.close(read_fd)
    _write(output, tail.chunks)
    problem = "" if in_time else f"{check.shown} took longer than {timeout_s:g} s and was ended"
    return CheckResult(check, child.returncode, problem, output, tail.cut)


def _end_of(child: subprocess.Popen[bytes], tail: _Tail, timeout_s: float) -> bool:
    """Wait for the check, then end what is left of its process group; False if it did not end in time.

    The leader is reaped last: until then the group's number cannot become another's.
    """
    end_fd = os.pidfd_open(child.pid)
    try:
        return tail.take(end_fd, timeout_s)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        tail.take(end_fd, GRACE_S)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        tail.take(None, DRAIN_S)
        os.close(end_fd)
        child.wait()


class _Tail:
    """The last bytes of an output that may be endless."""

    def __init__(self, output_fd: int, limit_bytes: int) -> None:
        os.set_blocking(output_fd, False)
        self._fd = output_fd
        self.chunks: deque[bytes] = deque()
        self.cut = False
        self._limit = limit_bytes
        self._size = 0
        self._ended = False

    def take(self, end_fd: int | None, timeout_s: float) -> bool:
        """Read until `end_fd` (pidfd_open(2)) says that the child ended, or without one until the output ends.

        False if that took longer than `timeout_s` seconds.
        """
        deadline_s = monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            if end_fd is not None:
                selector.register(end_fd, selectors.EVENT_READ)
            if not self._ended:
                selector.register(self._fd, selectors.EVENT_READ)
            while selector.get_map() and (left_s := deadline_s - monotonic()) > 0:
                ready = {key.fd for key, _ in selector.select(left_s)}
                if self._fd in ready and not self._read():
                    selector.unregister(self._fd)
                if end_fd in ready:
                    return True
            return not selector.get_map()

    def _read(self) -> bool:
        chunk = os.read(self._fd, _CHUNK_BYTES)
        self._ended = not chunk
        self.chunks.append(chunk)
        self._size += len(chunk)
        while self._size > self._limit:
            self.cut = True
            first = self.chunks.popleft()
            kept = first[self._size - self._limit :]
            self._size -= len(first) - len(kept)
            if kept:
                self.chunks.appendleft(kept)
        return bool(chunk)


def _write(path: str, chunks: Iterable[bytes]) -> None:
    """Write a file of the caller's directory anew; a link that waits there under its name is not followed."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.writelines(chunks)
