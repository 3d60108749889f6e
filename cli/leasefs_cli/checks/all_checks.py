"""All checks in the order in which they matter, and in which repairs build upon each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import paths
from leasefs.core.errors import LeasefsError
from leasefs_cli.checks.certificates import certificate_findings
from leasefs_cli.checks.clocks import clock_findings
from leasefs_cli.checks.configuration import configuration_findings
from leasefs_cli.checks.finding import OK, UNKNOWN, Finding
from leasefs_cli.checks.git_settings import git_findings, trees_in_question
from leasefs_cli.checks.host import host_findings
from leasefs_cli.checks.journals import journal_findings
from leasefs_cli.checks.ledger import ledger_findings, nobody_listens
from leasefs_cli.checks.mounts import mount_findings
from leasefs_cli.checks.rescues import rescue_findings
from leasefs_cli.checks.sessions import holder_findings, stored_findings
from leasefs_cli.checks.sockets import socket_findings
from leasefs_cli.checks.stores import log_findings
from leasefs_cli.system_services import unseen_services

if TYPE_CHECKING:
    from collections.abc import Iterator


def findings() -> Iterator[Finding]:
    """One after the other; what is repaired in between is seen by those that follow."""
    trees = trees_in_question()
    yield from host_findings()
    yield from configuration_findings()
    answers = True
    for finding in ledger_findings():
        answers = answers and (finding.check != "ledger" or finding.level == OK)
        yield finding
    yield from certificate_findings()
    yield from log_findings()
    yield from mount_findings()
    yield from socket_findings()
    # Before anybody's session is ended: what a dead mount left is its session's to tell.
    yield from journal_findings()
    yield from git_findings(trees)
    yield from stored_findings()
    if answers:
        yield from _asked()
    if unseen := unseen_services():
        advice = "leasefs doctor --system"
        yield Finding(UNKNOWN, "services", f"what those of systemd left is in {unseen}", advice)


def _asked() -> Iterator[Finding]:
    """What a ledger that answers can say. None is started for it."""
    try:
        url, embedded = paths.ledger_url()
        if embedded and nobody_listens(url):
            return
    except LeasefsError:
        return  # the ledger's own check has said so
    yield from holder_findings(url)
    yield from rescue_findings(url)
    yield from clock_findings(url)
