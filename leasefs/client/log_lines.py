"""One log message as one line, whatever is in it: as words (logfmt) or as JSON.

Paths, globs and programs' names are chosen by others. None of them may end a line, colour a terminal, or pass for
another field; and no secret may get in, even where somebody logs a whole request.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasefs.client.log_events import Event

TIME = "%Y-%m-%dT%H:%M:%S%z"
HIDDEN = "[secret]"
LONGEST = 4_000
"""Characters of a text; what is longer is cut."""

_LONGEST_TRACE = 16_000
_LONGEST_SECRET = 400
# A token of an identity, whole; and whatever stands where credentials do.
_SECRETS = re.compile(
    r"leasefs_[0-9a-f]{12}_[0-9a-f]{16,}|(?<=Leasefs )[^\s:]{1,99}:\S{1,300}|(?<=Bearer )\S{1,300}"
)
_BARE = re.compile(r"[A-Za-z0-9_./:+-]+")


def without_secrets(text: str) -> str:
    """`text` with what is secret hidden, and not without end; of any characters."""
    # No token is so long that half of one could be left at the end.
    shown = _SECRETS.sub(HIDDEN, text[: LONGEST + _LONGEST_SECRET])
    return shown if len(shown) <= LONGEST else shown[:LONGEST] + "..."


def on_one_line(text: str) -> str:
    """`text` in printable ASCII; escaped as Python does if it has anything else."""
    if text.isascii() and text.isprintable():
        return text
    return text.encode("unicode_escape", "surrogatepass").decode("ascii")


def message_of(record: logging.LogRecord) -> str:
    """The sentence, without secrets."""
    return without_secrets(record.getMessage())


def trace_of(record: logging.LogRecord) -> str:
    """The trace, if there is one: of many lines, without secrets."""
    if not record.exc_info:
        return ""
    text = logging.Formatter().formatException(record.exc_info)
    return _SECRETS.sub(HIDDEN, text)[-_LONGEST_TRACE:]


def event_of(record: logging.LogRecord) -> Event | None:
    """Which event it is, if it is one that has a name."""
    return getattr(record, "event", None)


def facts_of(record: logging.LogRecord) -> dict[str, str | int | float | bool]:
    """What is known beside the sentence. Numbers stay numbers."""
    said: Mapping[str, object] = getattr(record, "facts", {})
    return {
        name: value if isinstance(value, bool | int | float) else without_secrets(_text(value))
        for name, value in said.items()
        if value is not None
    }


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list | tuple):
        return " ".join(map(_text, value))
    return str(value)


class TextLines(logging.Formatter):
    """`ts=... level=... from=... event=... msg="..." name=value`; `about` are fields of every line."""

    def __init__(self, about: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._about = dict(about or {})

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        event, trace = event_of(record), trace_of(record)
        parts = [
            f"ts={self.formatTime(record, TIME)}",
            f"level={record.levelname.lower()}",
            f"from={record.name.removeprefix('leasefs.')}",
        ]
        if event is not None:
            parts.append(f"event={event.word}")
        parts.append("msg=" + quoted(message_of(record)))
        parts += [
            f"{name}={_shown(value)}" for name, value in {**self._about, **facts_of(record)}.items()
        ]
        if trace:
            parts.append("trace=" + quoted(trace))
        return " ".join(parts)


class JsonLines(logging.Formatter):
    """One JSON object for each message; the fields are those of `TextLines`."""

    def __init__(self, about: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._about = dict(about or {})

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        event, trace = event_of(record), trace_of(record)
        said: dict[str, object] = {
            **self._about,
            **facts_of(record),
            "ts": self.formatTime(record, TIME),
            "level": record.levelname.lower(),
            "from": record.name.removeprefix("leasefs."),
            "msg": message_of(record),
        }
        if event is not None:
            said["event"] = event.word
        if trace:
            said["trace"] = trace
        return json.dumps(said)


def quoted(text: str) -> str:
    """`text` in double quotes, on one line, so that it cannot end there: backslashes are escaped as well."""
    if not (text.isascii() and text.isprintable()) or "\\" in text:
        text = text.encode("unicode_escape", "surrogatepass").decode("ascii")
    return '"' + text.replace('"', '\\"') + '"'


def _shown(value: str | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return text if _BARE.fullmatch(text) else quoted(text)
