"""How far long work is: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar


class Progress(contextlib.ExitStack):
    """Shown on stderr while the block lasts, if that is a terminal. `what` says what is done, in a few words."""

    def __init__(self, what: str, total: int = 0) -> None:
        super().__init__()
        self._what = what
        self._total = total
        self._bar: ProgressBar[int] | None = None

    def __enter__(self) -> Self:
        return self

    def at(self, done: int) -> None:
        """So much of `total` is done."""
        self.so_far(done, self._total)

    def so_far(self, done: int, total: int) -> None:
        """So much of so much is done. Where the end is first known is how long the bar stays."""
        if total <= 0 or not sys.stderr.isatty():
            return
        if self._bar is None:
            bar = click.progressbar(length=total, label=self._what, file=sys.stderr)
            self._bar = self.enter_context(bar)
        self._bar.update(min(done, total) - self._bar.pos)
