"""`leasefs doctor`."""

from __future__ import annotations

import sys
from itertools import chain

import click

from leasefs_cli.checks.finding import FAIL, OK, WARN, Finding
from leasefs_cli.checks.host import host_findings
from leasefs_cli.checks.journals import journal_findings
from leasefs_cli.checks.ledger import ledger_findings
from leasefs_cli.checks.mounts import mount_findings
from leasefs_cli.exit_codes import DONE, UNEXPECTED
from leasefs_cli.printing import coloured, printable, say, say_json
from leasefs_cli.teaching import json_option, teaching_command

_COLOURS = {OK: "green", WARN: "yellow", FAIL: "red"}


@teaching_command(
    "doctor",
    own_codes=[("1", "a check failed; warnings do not count")],
    examples=[
        ("leasefs doctor", "after installing, or when something does not work"),
        ("leasefs doctor --json | jq '.findings[] | select(.level != \"ok\")'", "for a program"),
    ],
)
@click.option(
    "--fix",
    is_flag=True,
    help="Detach redirects that their mount does not know of; take over from mounts that died.",
)
@json_option
def command(as_json: bool, fix: bool) -> int:
    """Check this machine, the ledger and the mounts, and say what to repair.

    Each line is ok, warn (it works, but) or fail, with what to do below. Without --fix nothing is
    changed, and no ledger is started.
    """
    findings = []
    for finding in chain(
        host_findings(), ledger_findings(), mount_findings(fix=fix), journal_findings(fix=fix)
    ):
        findings.append(finding)
        if not as_json:
            _show(finding)
    failed = any(finding.level == FAIL for finding in findings)
    if as_json:
        say_json({"ok": not failed, "findings": [finding._asdict() for finding in findings]})
    return UNEXPECTED if failed else DONE


def _show(finding: Finding) -> None:
    level = coloured(finding.level.ljust(4), _COLOURS[finding.level], sys.stdout)
    say(f"{level}  {printable(finding.check)}: {printable(finding.found)}")
    if finding.advice:
        say(f"      {printable(finding.advice)}")
