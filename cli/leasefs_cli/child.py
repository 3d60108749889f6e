"""Running a command in our place: its signals, its exit code.

The command stays in our process group, so a terminal's Ctrl-C and Ctrl-Z reach it by themselves. What
is sent to us alone (kill PID) is passed on; the kernel marks what comes from a terminal
(si_code SI_KERNEL, sigaction(2)), so that nothing arrives twice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from leasefs_cli import exit_codes
from leasefs_cli.printing import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SI_KERNEL = 0x80
FORWARDED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
# What the interpreter ignores for itself must not be ignored in the command (posix_spawn(3) keeps it).
_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


def run_child(command: Sequence[str], started: Callable[[int], None]) -> int:
    """Run `command` to its end; its exit code, 128+N if signal N ended it.

    127: no such command; 126: it cannot be executed. `started` is told its pid once it runs; threads
    that it starts inherit blocked signals, so that they never take ours.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    try:
        pid = _spawn(command, before)
    except OSError as error:
        tell(f"{command[0]}: {os.strerror(error.errno or errno.EIO)}")
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        return exit_codes.NOT_FOUND if missing else exit_codes.NOT_EXECUTABLE
    else:
        started(pid)
        return _wait(pid)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _spawn(command: Sequence[str], mask: set[signal.Signals | int]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return os.posix_spawnp(command[0], list(command), os.environ, setsigmask=mask, setsigdef=_RESET)


def _wait(pid: int) -> int:
    """Pass signals on until the command has ended.

    A thread waits for it and then wakes this one: SIGCHLD itself may go to any thread of the process
    that does not block it, and be lost there.
    """
    codes: list[int] = []
    us = threading.get_ident()

    def reap() -> None:
        _, status = os.waitpid(pid, 0)
        codes.append(os.waitstatus_to_exitcode(status))
        signal.pthread_kill(us, signal.SIGCHLD)

    threading.Thread(target=reap, daemon=True).start()
    while not codes:
        came = signal.sigwaitinfo({*FORWARDED, signal.SIGCHLD})
        if came.si_signo != signal.SIGCHLD and came.si_code != SI_KERNEL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, came.si_signo)
    return codes[0] if codes[0] >= 0 else exit_codes.SIGNALLED - codes[0]
