"""The server's messages: one line each, whatever is in them (logfmt)."""

from __future__ import annotations

import logging
import sys

_LINE = "ts={ts} level={level} from={name} msg={message}"


class LineFormatter(logging.Formatter):
    """Time, level, module and message; traces and control characters escaped into the same line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = _LINE.format(
            ts=self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            level=record.levelname.lower(),
            name=record.name.removeprefix("leasefs."),
            message=quoted(record.getMessage()),
        )
        if record.exc_info:
            line += " trace=" + quoted(self.formatException(record.exc_info))
        return line


def quoted(text: str) -> str:
    """`text` in double quotes, on one line, in ASCII."""
    escaped = text.encode("unicode_escape", "surrogatepass").decode("ascii")
    return '"' + escaped.replace('"', '\\"') + '"'


def log_to_stderr() -> None:
    """Send everything from INFO on to stderr, from libraries from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("leasefs").setLevel(logging.INFO)
