"""The options that all `leasefs service` commands have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from leasefs.core.errors import Denied, InvalidRequest
from leasefs_cli.systemctl import Failed
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
    """Which units are meant.

    Raises:
        Denied: this user may not change those.
        InvalidRequest: there is no such directory. A variable without a value must not stand for the machine itself.
    """
    if root is not None and not os.path.isdir(root):
        raise InvalidRequest(
            f"--root {root!r} is no directory: mount the image first, or check the path"
        )
    if changes and not user and not root and os.geteuid() != 0:
        raise Denied(
            "the machine's units are root's; run it with sudo, or use --user for units of your own"
        )
    return Flavour(user, os.path.abspath(root) if root else "")


@contextlib.contextmanager
def files_told() -> Iterator[None]:
    """What cannot be read or written on the way is named. Raises Failed."""
    try:
        yield
    except OSError as error:
        raise Failed(
            f"{error.filename}: {error.strerror}; put that right, then do the same again"
        ) from error
