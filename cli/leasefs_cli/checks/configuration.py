"""Checks of what is configured: files and variables with errors in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs_cli.checks.finding import FAIL, OK, WARN, Finding
from leasefs_cli.config_here import report_here

if TYPE_CHECKING:
    from collections.abc import Iterator


def configuration_findings() -> Iterator[Finding]:
    """One finding for each error of the settings that count here."""
    troubles = list(report_here().troubles())
    if not troubles:
        yield Finding(OK, "configuration", "no errors")
    for trouble in troubles:
        level = FAIL if trouble.fatal else WARN
        yield Finding(level, f"configuration {trouble.where}", trouble.words, "leasefs config show")
