"""Where the messages of a ledger or a mount go, and how: the settings `log.level` and `log.format`.

`auto` is journald with fields where it reads our standard error, as under systemd, and lines of text elsewhere. `text`
and `json` are lines on standard error everywhere.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from leasefs.client import config
from leasefs.client.log_journal import JournalHandler, stderr_is_the_journal
from leasefs.client.log_limits import FloodLimit
from leasefs.client.log_lines import JsonLines, TextLines
from leasefs.client.log_stream import PatientLines

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO, TEXT, JSON = "auto", "text", "json"


def log_as(
    name: str, about: Mapping[str, str] | None = None, *, level: str = "", how: str = ""
) -> None:
    """Begin to log as `name` (`leasefs-ledger`), with the fields `about` in every message.

    `level` and `how` are what was given on the command line, empty where the settings decide.

    Raises:
        BadConfiguration: the settings cannot be read.
    """
    level, how = level or config.text("log.level"), how or config.text("log.format")
    handler = _handler(name, about or {}, how)
    handler.addFilter(FloodLimit())
    # Of libraries only what is wrong.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("leasefs").setLevel(level.upper())


def _handler(name: str, about: Mapping[str, str], how: str) -> logging.Handler:
    if how == AUTO and stderr_is_the_journal():
        with suppress(OSError):  # somebody else reads it in the journal's place
            return JournalHandler(name, about)
    lines = PatientLines(sys.stderr)
    lines.setFormatter(JsonLines(about) if how == JSON else TextLines(about))
    return lines
