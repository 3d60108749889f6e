"""Durations as people write them (`leasefs.core.durations`), as options, and as they read them."""

from __future__ import annotations

from typing import NoReturn

import click

from leasefs.core.durations import LONGEST_TEXT, parse_duration_s

FOREVER = "forever"
"""What a bare `--wait` means: without end."""


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
        if value in (FOREVER, float("inf")):
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
        shown = shown if len(shown) <= LONGEST_TEXT else shown[:LONGEST_TEXT] + "..."
        self.fail(
            f"{shown!r} {problem}: give {in_words(self.least_s)} to {in_words(self.greatest_s)}, "
            "written like 90s, 30m, 1h30m or plain seconds",
            param,
            ctx,
        )
