"""The bar that long work shows: on a terminal alone, and to the end of the work."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import sys
from typing import TYPE_CHECKING

import pytest

from leasefs_cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def on_a_terminal() -> Iterator[int]:
    """Standard error is a terminal in the block; what it shows is read from the descriptor."""
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as file, contextlib.redirect_stderr(file):
        yield ours
    os.close(ours)


def shown(terminal: int) -> str:
    sys.stderr.flush()
    text = b""
    while select.select([terminal], [], [], 0)[0]:
        text += os.read(terminal, 65536)
    return text.decode()


def test_a_bar_that_grows_to_its_end() -> None:
    with on_a_terminal() as terminal:
        with Progress("copying") as progress:
            progress.so_far(0, 0)  # nobody knows yet how much it is
            assert shown(terminal) == ""
            progress.so_far(1, 4)
            assert "25%" in shown(terminal)
            progress.so_far(3, 4)
            assert "75%" in shown(terminal)
            progress.so_far(9, 4)
        last = shown(terminal)
    assert "copying" in last
    assert "100%" in last
    assert last.endswith("\n")


def test_work_that_fails_ends_the_line() -> None:
    def fail() -> None:
        with Progress("dropping events", 10) as progress:
            progress.at(5)
            raise OSError("full")

    with on_a_terminal() as terminal:
        with pytest.raises(OSError, match="full"):
            fail()
        assert "\n" in shown(terminal)


def test_nothing_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("copying", 2) as progress:
        progress.at(1)
        progress.at(2)
    assert capsys.readouterr().err == ""
