"""What one check found."""

from __future__ import annotations

from typing import NamedTuple

OK = "ok"
WARN = "warn"
FAIL = "fail"


class Finding(NamedTuple):
    """`level` is `ok`, `warn` (works, but) or `fail`; `advice` says what to do, empty if nothing."""

    level: str
    check: str
    found: str
    advice: str = ""
