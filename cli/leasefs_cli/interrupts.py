"""Being told to stop, as an exception, so that a claim under way is withdrawn."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

_ASKING_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """A signal asked this process to stop. Like KeyboardInterrupt, nothing but cleaning up catches it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def _raise_once(signal_number: int, _frame: FrameType | None) -> None:
    """Whoever asks twice must not cut the cleaning up short, however soon it is asked again."""
    for number in _ASKING_TO_STOP:
        signal.signal(number, signal.SIG_IGN)
    if signal_number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(signal_number)


@contextlib.contextmanager
def stopping_as_exception() -> Iterator[None]:
    """Within, the first SIGINT raises KeyboardInterrupt, the first SIGTERM or SIGHUP Terminated.

    Those that follow are ignored to the end of the context. What was ignored before (nohup) stays so.
    """
    with _handled(
        _raise_once,
        [
            number
            for number in _ASKING_TO_STOP
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
        ],
    ):
        yield


@contextlib.contextmanager
def deaf_to_signals() -> Iterator[None]:
    """Within, the signals that ask to stop are ignored: it is stopping already, and cleans up first."""
    with _handled(signal.SIG_IGN, _ASKING_TO_STOP):
        yield


@contextlib.contextmanager
def _handled(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers, numbers: Iterable[int]
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
