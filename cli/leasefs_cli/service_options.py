"""The options that all `leasefs service` commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from leasefs.core.errors import Denied
from leasefs_cli.unit_files import Flavour

_F = TypeVar("_F", bound=Callable[..., Any])


def flavour_options(function: _F) -> _F:
    """`--user`, `--root`, `--command`."""
    for option in (
        click.option(
            "--command",
            "program",
            metavar="PATH",
            help="The leasefs that units start. Default: the one that runs.",
        ),
        click.option(
            "--root",
            metavar="DIR",
            help="Work on the system below DIR, such as an image; nothing is started.",
        ),
        click.option("--user", is_flag=True, help="Units of this user instead of the machine's."),
    ):
        function = option(function)
    return function


def flavour_of(*, user: bool, root: str | None, changes: bool = True) -> Flavour:
    """Which units are meant. Raises Denied if this user may not change those."""
    if changes and not user and not root and os.geteuid() != 0:
        raise Denied(
            "the machine's units are root's; run it with sudo, or use --user for units of your own"
        )
    return Flavour(user, os.path.abspath(root) if root else "")
