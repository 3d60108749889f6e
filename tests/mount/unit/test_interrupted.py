"""Which pending signals let a waiting caller go."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from leasefs.mount.interrupted import is_asked_to_end, unless_interrupted
from leasefs.testing.eventually import eventually

# Stopped, a process takes no signal: what is sent stays pending, as it does in a system call.
PROGRAM = """
import os, signal
signal.signal(signal.SIGINT, lambda *_: None)
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGQUIT])
os.kill(os.getpid(), signal.SIGSTOP)
"""


def pending(*numbers: signal.Signals) -> bool:
    with subprocess.Popen([sys.executable, "-c", PROGRAM]) as process:
        eventually(lambda: b" T " in Path(f"/proc/{process.pid}/stat").read_bytes())
        for number in numbers:
            process.send_signal(number)
        asked = is_asked_to_end(process.pid)
        process.kill()
    return asked


@pytest.mark.parametrize(
    ("number", "asked"),
    [
        (signal.SIGTERM, True),
        (signal.SIGINT, True),  # caught, but that is what it is for
        (signal.SIGUSR1, False),  # caught
        (signal.SIGUSR2, True),  # ends it
        (signal.SIGHUP, False),  # ignored
        (signal.SIGQUIT, False),  # blocked
        (signal.SIGCHLD, False),
        (signal.SIGWINCH, False),
    ],
)
def test_what_asks_to_end(number: signal.Signals, asked: bool) -> None:
    assert pending(number) is asked


def test_nothing_pending_and_nobody_there() -> None:
    assert not is_asked_to_end(os.getpid())
    assert not is_asked_to_end(0)
    assert not is_asked_to_end(2**22)


@pytest.mark.trio
async def test_a_wait_passes_on_what_it_meets() -> None:
    async def fails() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EIO, "met")

    with pytest.raises(OSError, match="met"):
        await unless_interrupted(os.getpid(), fails)


@pytest.mark.trio
async def test_a_wait_ends_with_eintr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasefs.mount.interrupted.is_asked_to_end", lambda _: True)
    with pytest.raises(InterruptedError):
        await unless_interrupted(os.getpid(), trio.sleep_forever)
