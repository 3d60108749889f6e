"""Durations as people write them (`30m`, `1h30m`, `90s`, `45`) and as they read them.

Parsing is strict: a duration that is misread keeps a lease too long or gives it up too early.
"""

from __future__ import annotations

import itertools
import re
from typing import NoReturn

import click

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
FOREVER = "forever"
"""What a bare `--wait` means: without end."""

MAX_WAIT_S = 7 * 86400.0

# Compiled when the first duration is read: most commands read none, and all pay for their start.
_PART = r"([0-9]+(?:\.[0-9]+)?)([dhms])"
_PLAIN = r"[0-9]+(?:\.[0-9]+)?"
_LONGEST_TEXT = 32


def parse_duration_s(text: str) -> float:
    """Seconds in `text`.

    Raises:
        ValueError: `text` is not a sequence of number and unit, largest unit first, each at most once.
    """
    if len(text) > _LONGEST_TEXT:
        raise ValueError("too long")
    if re.fullmatch(_PLAIN, text):
        return float(text)
    parts = re.findall(_PART, text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("not a duration")
    units = [SECONDS[unit] for _, unit in parts]
    if any(left <= right for left, right in itertools.pairwise(units)):
        raise ValueError("units out of order")
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def in_words(seconds: float) -> str:
    """A duration for a person, at most two units: `2h05m`, `4m30s`, `12s`, `0.4s`."""
    if seconds < 0:
        return "-" + in_words(-seconds)
    if seconds < 1:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return _two(whole, 60, "m", "s")
    if whole < 86400:
        return _two(whole // 60, 60, "h", "m")
    return _two(whole // 3600, 24, "d", "h")


def _two(smaller: int, size: int, large_unit: str, small_unit: str) -> str:
    large, small = divmod(smaller, size)
    return f"{large}{large_unit}{small:02d}{small_unit}" if small else f"{large}{large_unit}"


class Duration(click.ParamType[float]):
    """A click parameter: seconds within a range that the message of a failure names."""

    name = "duration"

    def __init__(self, least_s: float, greatest_s: float) -> None:
        self.least_s = least_s
        self.greatest_s = greatest_s

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds; `inf` for `FOREVER`. A usage error names what is accepted."""
        if value == FOREVER:
            return float("inf")
        try:
            seconds = (
                float(value) if isinstance(value, int | float) else parse_duration_s(str(value))
            )
        except ValueError:
            self._refuse(value, "is not a duration", param, ctx)
        if not self.least_s <= seconds <= self.greatest_s:
            self._refuse(value, "is out of range", param, ctx)
        return seconds

    def _refuse(
        self,
        value: object,
        problem: str,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> NoReturn:
        shown = str(value)
        shown = shown if len(shown) <= _LONGEST_TEXT else shown[:_LONGEST_TEXT] + "..."
        self.fail(
            f"{shown!r} {problem}: give {in_words(self.least_s)} to {in_words(self.greatest_s)}, "
            "written like 90s, 30m, 1h30m or plain seconds",
            param,
            ctx,
        )
