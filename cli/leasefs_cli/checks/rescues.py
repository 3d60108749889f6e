"""Checks of rescues: work that was kept when its lease ended, and that nobody has taken up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.clock import BoottimeClock
from leasefs.core.errors import LeasefsError
from leasefs_cli.checks.finding import OK, UNKNOWN, WARN, Finding
from leasefs_cli.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator


def rescue_findings(url: str) -> Iterator[Finding]:
    """How many there are, and since when. They are somebody's work, so nothing here repairs anything."""
    try:
        rescues = Link(url, timeout_s=5.0).send(api.rescues())["rescues"]
    except LeasefsError as error:
        yield Finding(UNKNOWN, "rescues", f"the ledger cannot be asked: {error.message}", "")
        return
    if not rescues:
        yield Finding(OK, "rescues", "none")
        return
    oldest = min(rescues, key=lambda one: float(one["wall_s"]))
    ago = in_words(max(0.0, BoottimeClock().wall_s() - oldest["wall_s"]))
    yield Finding(
        WARN,
        "rescues",
        f"{len(rescues)} not collected; the oldest, {oldest['id']} of {oldest['agent']}, is {ago} old",
        "leasefs rescue list --all; then leasefs rescue apply ID, or drop ID",
    )
