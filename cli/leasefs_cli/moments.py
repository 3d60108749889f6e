"""Points of the log as people name them: a sequence number, how long ago, or a time of the wall clock."""

from __future__ import annotations

import time
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

import click

from leasefs.client import api_history
from leasefs.core.durations import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

    from leasefs.client.blocking import Link

_LONGEST_NUMBER = 18
_END_OF_TIME_S = 1e12
HELP = "a sequence number, how long ago (`2h`), or a time (`2026-03-01 14:30`, `14:30`)"


class Point(NamedTuple):
    """A number of the log, or a time whose number is still to be asked for."""

    seq: int | None
    wall_s: float | None

    def seq_in(self, link: Link) -> int:
        """The number: of the last event up to then. Raises what `Link.send` raises."""
        if self.seq is not None:
            return self.seq
        return int(link.send(api_history.extent(self.wall_s))["at"])

    def just_before(self, link: Link) -> int:
        """The number after which what is named begins: the number itself is part of it."""
        return max(0, self.seq - 1) if self.seq is not None else self.seq_in(link)


class Moment(click.ParamType[Point]):
    """A click parameter: a `Point`."""

    name = "moment"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Point:
        """The point. A usage error names what is accepted."""
        if isinstance(value, Point):
            return value
        text = str(value).strip()
        if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER:
            return Point(int(text), None)
        wall_s = _wall_s(text) if text else None
        if wall_s is None or not 0.0 <= wall_s < _END_OF_TIME_S:
            self.fail(f"{text[:40]!r} is none of these: {HELP}", param, ctx)
        return Point(None, wall_s)


def _wall_s(text: str) -> float | None:
    now_s = time.clock_gettime(time.CLOCK_REALTIME)
    if text == "now":
        return now_s
    try:
        return now_s - parse_duration_s(text)
    except ValueError:
        return _calendar_s(text, now_s)


def _calendar_s(text: str, now_s: float) -> float | None:
    """Seconds since the epoch of a time that is written out; local unless it says otherwise."""
    from datetime import datetime

    now = datetime.fromtimestamp(now_s, UTC).astimezone()
    for spelled in (text, f"{now:%Y-%m-%d} {text}"):
        try:
            read = datetime.fromisoformat(spelled)
            return (read if read.tzinfo else read.replace(tzinfo=None).astimezone()).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def at_option(function: F) -> F:
    """`--at`: for what is listed."""
    return click.option(
        "--at",
        type=Moment(),
        metavar="MOMENT",
        help=f"As it was then, replayed from the log: {HELP}.",
    )(function)
