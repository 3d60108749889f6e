"""`--log-level` and `--log-format`: of what runs on, the ledger and the mounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from leasefs.core.settings import LOG_FORMATS, LOG_LEVELS
from leasefs_cli.setting_option import setting_option

_F = TypeVar("_F", bound=Callable[..., Any])


def logging_options(function: _F) -> _F:
    """Both, as `log_level` and `log_format`."""
    with_format = setting_option(
        "log.format",
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        help="How messages are written to stderr: as text, or as JSON, a line each; auto: text, or journald's own "
        "fields where that reads stderr.",
    )(function)
    return setting_option(
        "log.level",
        "--log-level",
        type=click.Choice(LOG_LEVELS),
        help="Which messages: those of this level and worse. At debug each grant and release is one.",
    )(with_format)
