"""xfstests: only its two stand-alone programs, fsx and fsstress, are built."""

from __future__ import annotations

from suite_runs.fetched import built

_URL = "https://github.com/kdave/xfstests"
_STEPS = [
    ["make", "configure"],
    ["./configure"],
    ["make", "-C", "lib"],
    ["make", "-C", "ltp", "fsx", "fsstress"],
]


def programs(work: str) -> str:
    """The directory that holds fsx and fsstress. Building them needs xfslibs-dev, libaio-dev and liburing-dev."""
    return built("xfstests", _URL, work, "ltp/fsstress", _STEPS) + "/ltp"
