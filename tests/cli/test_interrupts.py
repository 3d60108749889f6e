"""Signals become exceptions where something has to be cleaned up, and Ctrl-C is never lost."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from leasefs_cli import interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    assert [signal.getsignal(number) for number in NUMBERS] == before


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_is_raised_and_the_next_does_nothing(number: signal.Signals) -> None:
    wanted = KeyboardInterrupt if number == signal.SIGINT else interrupts.Terminated
    with interrupts.stopping_as_exception():
        with pytest.raises(wanted):
            os.kill(os.getpid(), number)
        for again in NUMBERS:
            os.kill(os.getpid(), again)


def test_one_that_was_lost_can_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_AGAIN_S", 0.0)
    with interrupts.stopping_as_exception():
        for _ in range(2):
            with pytest.raises(interrupts.Terminated):
                os.kill(os.getpid(), signal.SIGTERM)


def test_what_is_ignored_stays_so() -> None:
    """nohup(1), and commands that a script runs in the background."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupts.dying_of_ctrl_c(), interrupts.stopping_as_exception():
        os.kill(os.getpid(), signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)


def test_cleaning_up_is_not_cut_short() -> None:
    with interrupts.stopping_as_exception(), interrupts.deaf_to_signals():
        for number in NUMBERS:
            os.kill(os.getpid(), number)


def test_ctrl_c_ends_the_process_where_nothing_is_to_be_cleaned_up() -> None:
    with interrupts.dying_of_ctrl_c():
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        with interrupts.stopping_as_exception(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
