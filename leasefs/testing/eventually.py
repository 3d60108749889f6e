"""Waiting for a condition, with a deadline, instead of sleeping for some time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
POLL_S = 0.02


def eventually(condition: Callable[[], T], within_s: float = 20.0, what: str = "it") -> T:
    """What `condition` returns once that is true.

    Raises:
        AssertionError: if that has not come about `within_s` seconds from now.
    """
    deadline_s = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < deadline_s, f"{what} did not come about within {within_s:g} s"
        time.sleep(POLL_S)  # noqa: TID251 - polling a condition
    return result
