"""Durations as people write them: `30m`, `1h30m`, `90s`, `45`.

Parsing is strict: a duration that is misread keeps a lease too long or gives it up too early.
"""

from __future__ import annotations

import itertools
import re

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
LONGEST_TEXT = 32

# Compiled when the first duration is read: most commands read none, and all pay for their start.
_PART = r"([0-9]+(?:\.[0-9]+)?)([dhms])"
_PLAIN = r"[0-9]+(?:\.[0-9]+)?"


def parse_duration_s(text: str) -> float:
    """Seconds in `text`.

    Raises:
        ValueError: `text` is not a sequence of number and unit, largest unit first, each at most once.
    """
    if len(text) > LONGEST_TEXT:
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
