"""Lines on standard error that nobody has to read: a pipe that is full, or a terminal that is held, stops no daemon.

Ledger and mount log from the loops that serve everybody. What cannot be written at once is left out, and the next line
says how many were (`missed`), as with the journal.
"""

from __future__ import annotations

import logging
import os
import select
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    # The class takes no parameter before typing does.
    Base = logging.StreamHandler[TextIO]
else:
    Base = logging.StreamHandler

# POSIX's PIPE_BUF on Linux: so much goes into a pipe that poll(2) calls writable, and nobody waits (pipe(7)).
_AT_ONCE_BYTES = 4096


class PatientLines(Base):
    """A `StreamHandler` that never waits for who reads, where the stream is a file of the system."""

    _missed = 0
    _cut = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, if that can be done at once."""
        try:
            fd = self.stream.fileno()
        except (AttributeError, OSError, ValueError):  # closed, or a test's
            super().emit(record)
            return
        if self._missed:
            record.facts = {**getattr(record, "facts", {}), "missed": self._missed}
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:  # noqa: BLE001 -- what `logging` wants of handlers
            self.handleError(record)
        else:
            # What follows half a line must not become a part of it.
            self._put(fd, b"\n" + line if self._cut else line)

    def _put(self, fd: int, line: bytes) -> None:
        try:
            written = _written(fd, line)
        except OSError:
            written = 0  # nobody can read it any more
        whole = written == len(line)
        self._missed = 0 if whole else self._missed + 1
        self._cut = not whole and (written > 0 or self._cut)


def _written(fd: int, line: bytes) -> int:
    """How many bytes could be written without waiting. Raises OSError."""
    asking = select.poll()
    asking.register(fd, select.POLLOUT)
    done = 0
    while done < len(line) and asking.poll(0):
        done += os.write(fd, line[done : done + _AT_ONCE_BYTES])
    return done
