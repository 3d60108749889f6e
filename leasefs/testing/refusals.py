"""The errno that a refused system call gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def refusal_of(action: Callable[..., object], *arguments: object) -> int:
    """Call `action` and return the errno that it fails with. AssertionError if it does not fail."""
    try:
        action(*arguments)
    except OSError as error:
        return error.errno or 0
    raise AssertionError(f"{action} was not refused")
