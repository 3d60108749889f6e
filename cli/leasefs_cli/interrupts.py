"""Being told to stop, as an exception, so that a claim under way is withdrawn."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_ASKING_TO_STOP = (signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """A signal asked this process to stop. Like KeyboardInterrupt, nothing but cleaning up catches it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def _raise(signal_number: int, _frame: FrameType | None) -> None:
    raise Terminated(signal_number)


@contextlib.contextmanager
def stopping_as_exception() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise Terminated, unless they are ignored (nohup)."""
    before = {
        number: signal.signal(number, _raise)
        for number in _ASKING_TO_STOP
        if signal.getsignal(number) == signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def deaf_to_signals() -> Iterator[None]:
    """Within, the signals that ask to stop are ignored: it is stopping already, and cleans up first."""
    before = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, *_ASKING_TO_STOP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
