"""Checks of clocks: steps of the wall clock, which decide nothing but make the log's times misleading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.clock import BoottimeClock
from leasefs.core.errors import LeasefsError
from leasefs_cli.checks.finding import OK, UNKNOWN, WARN, Finding
from leasefs_cli.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

_METRICS = api.Call("GET", "/metrics")
_STEPS = re.compile(r"^leasefs_clock_steps_total\{[^}]*\} (\d+)$", re.MULTILINE)
# What a ledger on another host, or an answer on its way, may differ by.
_TOLERATED_S = 5.0


def clock_findings(url: str) -> Iterator[Finding]:
    """Whether the log's last event lies in the future, and whether the ledger saw the wall clock step."""
    link = Link(url, timeout_s=5.0)
    try:
        head = link.send(api.status())["seq"]
        last = link.send(api.events(after=max(0, head - 1), limit=1))["events"]
        steps = sum(map(int, _STEPS.findall(link.text(_METRICS))))
    except LeasefsError as error:
        yield Finding(UNKNOWN, "clock", f"the ledger cannot be asked: {error.message}", "")
        return
    ahead_s = max((one["wall_s"] for one in last), default=0.0) - BoottimeClock().wall_s()
    if ahead_s > _TOLERATED_S:
        yield Finding(
            WARN,
            "clock",
            f"the log's last event is dated {in_words(ahead_s)} from now: the wall clock was set back",
            "leases do not depend on it; see that it is synchronised (timedatectl), and mind the times of leasefs log",
        )
    elif steps:
        yield Finding(
            WARN,
            "clock",
            f"the wall clock was set {steps} times since the ledger began",
            "leases do not depend on it; see that it is synchronised (timedatectl)",
        )
    else:
        yield Finding(OK, "clock", "the wall clock agrees with the log")
