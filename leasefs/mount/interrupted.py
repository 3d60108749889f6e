"""Whether a caller that waits for us is asked to end.

The kernel lets a caller go only when we answer; that a signal came it tells by FUSE_INTERRUPT, which
pyfuse3 does not pass on. The signal stays pending meanwhile, and /proc shows it (proc_pid_status(5)).
"""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING

import trio

from leasefs.client.process import status_fields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# A signal is taken at once by whoever is not in a system call: one that is pending twice in a row is not.
_LOOK_EVERY_S = 0.03
_LOOKS = 2


def _mask(*numbers: signal.Signals) -> int:
    return sum(1 << (number - 1) for number in numbers)


_KILL = _mask(signal.SIGKILL)
# By these somebody asks a program to end that has a handler for them.
_ASKING = _mask(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# These end nothing by default (signal(7)). Answering them with EINTR would be noticed by programs that
# restart nothing, since from a local file system it never comes.
_HARMLESS = _mask(
    signal.SIGCHLD,
    signal.SIGCONT,
    signal.SIGURG,
    signal.SIGWINCH,
    signal.SIGSTOP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


def is_asked_to_end(thread: int) -> bool:
    """Whether a signal is pending for the thread that would end it, or that asks it to end."""
    try:
        fields = status_fields(thread, "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")
        own, shared, blocked, ignored, caught = (int(mask, 16) for mask in fields.values())
        pending = own | shared
    except (OSError, KeyError, ValueError):
        return False  # gone, or not ours to see
    if pending & _KILL:
        return True
    ends = ~caught & ~_HARMLESS | _ASKING
    return bool(pending & ends & ~blocked & ~ignored)


async def unless_interrupted(thread: int, wait: Callable[[], Awaitable[None]]) -> None:
    """Wait on behalf of a thread.

    Raises:
        OSError: EINTR, soon after a signal asked the thread to end.
    """
    over = trio.Event()
    with trio.CancelScope() as waiting:
        trio.lowlevel.spawn_system_task(_cancel_when_asked, thread, waiting, over)
        try:
            await wait()
        finally:
            over.set()
    if waiting.cancelled_caught:
        raise OSError(errno.EINTR, os.strerror(errno.EINTR))


async def _cancel_when_asked(thread: int, waiting: trio.CancelScope, over: trio.Event) -> None:
    asked = 0
    while asked < _LOOKS:
        with trio.move_on_after(_LOOK_EVERY_S):
            await over.wait()
            return
        asked = asked + 1 if is_asked_to_end(thread) else 0
    waiting.cancel()
