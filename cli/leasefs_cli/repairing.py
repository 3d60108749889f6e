"""Putting right what the checks found: each thing by itself, asked for on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from leasefs.core.errors import LeasefsError
from leasefs.vcs.errors import VcsError
from leasefs_cli.checks.finding import FAIL, OK
from leasefs_cli.printing import printable

if TYPE_CHECKING:
    from leasefs_cli.checks.finding import Finding, Repair


class Repairs:
    """What is repaired: `wanted` at all, and asking on a terminal unless `yes`."""

    def __init__(self, *, wanted: bool, yes: bool) -> None:
        self._wanted = wanted
        self._yes = yes
        self._asks = not yes and sys.stdin.isatty() and sys.stderr.isatty()

    def of(self, finding: Finding) -> Finding:
        """The finding as it is now: repaired, if it could and should be."""
        repair = finding.repair
        if not self._wanted or repair is None or not self._agreed(finding, repair):
            return finding
        try:
            done = repair.do()
        except (LeasefsError, VcsError, OSError) as error:
            why = error.message if isinstance(error, LeasefsError) else str(error)
            found = f"{finding.found}; it could not be repaired: {why}"
            return finding._replace(level=FAIL, found=found)
        return finding._replace(level=OK, found=done, advice="", repair=None, repaired=True)

    def _agreed(self, finding: Finding, repair: Repair) -> bool:
        if not self._asks:
            return not repair.weighty
        question = (
            f"{printable(finding.check)}: {printable(finding.found)}\n  {printable(repair.what)}?"
        )
        return click.confirm(question, default=not repair.weighty, err=True)
