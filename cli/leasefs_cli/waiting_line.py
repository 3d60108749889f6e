"""What a person sees while a claim waits."""

from __future__ import annotations

import sys
from typing import Any

from leasefs_cli.printing import printable, tell
from leasefs_cli.waiter_rows import blockers_of, eta


class WaitingLine:
    """One line on stderr that tells a waiter's place; rewritten in place on a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._open = False
        self._last = ""

    def show(self, waiting: dict[str, Any]) -> None:
        """Tell where the claim stands now, unless it was told already."""
        text = waiting_words(waiting)
        if self._quiet or text == self._last:
            return
        self._last = text
        if not self._live:
            tell(text)
            return
        # \r and "erase to the end of the line" (ECMA-48 EL): the line stays one line.
        sys.stderr.write(f"\r\x1b[Kleasefs: {printable(text)}")
        sys.stderr.flush()
        self._open = True

    def close(self) -> None:
        """End the line, so that what follows starts on its own."""
        if self._open:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._open = False


def waiting_words(waiting: dict[str, Any]) -> str:
    """`L12 waits: position 2, behind agent-02 (L9), ETA 3m (1m to 8m, from 12 holds)`."""
    return (
        f"{waiting['lease']} waits: position {waiting.get('position') or '?'}, "
        f"behind {blockers_of(waiting)}, ETA {eta(waiting)}"
    )
