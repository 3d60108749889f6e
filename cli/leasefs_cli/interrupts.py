"""Being told to stop, as an exception, so that a claim under way is withdrawn."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

from leasefs.client.clock import BoottimeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

_ASKING_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Whoever asks again so soon must not cut the cleaning up short before it can close its ears.
_AGAIN_S = 1.0


class Terminated(BaseException):
    """A signal asked this process to stop. Like KeyboardInterrupt, nothing but cleaning up catches it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class _Asked:
    """The handler of one context. A class for its memory: handlers get none."""

    def __init__(self) -> None:
        self._at_s = float("-inf")

    def __call__(self, signal_number: int, _frame: FrameType | None) -> None:
        now_s = BoottimeClock().now_s()
        if now_s - self._at_s < _AGAIN_S:
            return
        self._at_s = now_s
        if signal_number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Terminated(signal_number)


@contextlib.contextmanager
def dying_of_ctrl_c() -> Iterator[None]:
    """Within, SIGINT ends the process at once, unless `stopping_as_exception` has it.

    An exception would be lost if it came up in one of the callbacks that the interpreter runs between
    two lines, as while importing, and Ctrl-C would have done nothing.
    """
    took = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with _handled(signal.SIG_DFL, [signal.SIGINT] if took else []):
        yield


@contextlib.contextmanager
def stopping_as_exception() -> Iterator[None]:
    """Within, SIGINT raises KeyboardInterrupt, SIGTERM and SIGHUP raise Terminated.

    Those that follow within a second do nothing. What was ignored before (nohup) stays so.
    """
    ours = (signal.SIG_DFL, signal.default_int_handler)
    with _handled(
        _Asked(), [number for number in _ASKING_TO_STOP if signal.getsignal(number) in ours]
    ):
        yield


def ignore_from_now_on() -> None:
    """Nothing asks to stop any more, to the end of `stopping_as_exception`: it is too late."""
    for number in _ASKING_TO_STOP:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def dying_at_once() -> Iterator[None]:
    """Within, the signals that ask to stop end the process: nothing is under way that needs cleaning up."""
    with _handled(
        signal.SIG_DFL,
        [number for number in _ASKING_TO_STOP if signal.getsignal(number) != signal.SIG_IGN],
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
