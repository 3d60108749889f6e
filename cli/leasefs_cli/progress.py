"""How far long work is: one line on a terminal, written over again and again, and nothing elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_BACK = "\r\x1b[K"


class Progress:
    """Shown on stderr while the block lasts, if that is a terminal. `what` says what is done, in a few words."""

    def __init__(self, what: str, total: int = 0) -> None:
        self._what = what
        self._total = total
        self._shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write(_BACK)
            sys.stderr.flush()

    def at(self, done: int) -> None:
        """So much of `total` is done."""
        self.so_far(done, self._total)

    def so_far(self, done: int, total: int) -> None:
        """So much of so much is done."""
        if total <= 0 or not sys.stderr.isatty():
            return
        line = f"{self._what}: {100 * min(done, total) // total}%"
        if line != self._shown:
            self._shown = line
            sys.stderr.write(f"{_BACK}{line}")
            sys.stderr.flush()
