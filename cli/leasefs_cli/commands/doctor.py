"""`leasefs doctor`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from leasefs_cli.checks.all_checks import findings
from leasefs_cli.checks.finding import FAIL, OK, UNKNOWN, WARN, Finding
from leasefs_cli.exit_codes import DONE, UNEXPECTED
from leasefs_cli.printing import coloured, printable, say, say_json
from leasefs_cli.repairing import Repairs
from leasefs_cli.system_services import look_as_services_do
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS = {OK: "green", WARN: "yellow", FAIL: "red", UNKNOWN: "cyan"}
_WIDTH = 7


@teaching_command(
    "doctor",
    own_codes=[("1", "a check failed; warnings, and what could not be looked at, do not count")],
    examples=[
        ("leasefs doctor", "after installing, or when something does not work"),
        ("leasefs doctor --fix", "repair what can be, each thing asked for on a terminal"),
        ("leasefs doctor --system", "on a host whose ledger and mounts run under systemd, as root"),
        ("leasefs doctor --json | jq '.findings[] | select(.level != \"ok\")'", "for a program"),
    ],
)
@click.option(
    "--fix",
    is_flag=True,
    help="Repair what can be without losing anything: dead mounts, sockets, sessions and settings that outlived "
    "their owner, journals of mounts that died. Each is asked for, if there is a terminal to ask at.",
)
@click.option(
    "--system",
    is_flag=True,
    help="Look at what the system's services know and left, as root; else at what is yours.",
)
@click.option("--yes", is_flag=True, help="With --fix, do not ask.")
@json_option
def command(as_json: bool, fix: bool, system: bool, yes: bool) -> int:
    """Check this machine, the ledger and the mounts, and say what to repair.

    Each line is ok, warn (it works, but), fail, or unknown (could not look), with what to do below. Without --fix
    nothing is changed, and no ledger is started. No repair throws work away: a journal is replayed, and what is
    uncommitted is kept.
    """
    if yes and not fix:
        raise click.UsageError("--yes goes with --fix")
    if system:
        look_as_services_do()
    repairs = Repairs(wanted=fix, yes=yes or as_json)
    found = []
    for finding in map(repairs.of, findings()):
        found.append(finding)
        if not as_json:
            _show(finding)
    return _ending(found, as_json=as_json)


def _ending(found: Sequence[Finding], *, as_json: bool) -> int:
    failed = any(finding.level == FAIL for finding in found)
    if as_json:
        say_json({"ok": not failed, "findings": [finding.facts() for finding in found]})
    return UNEXPECTED if failed else DONE


def _show(finding: Finding) -> None:
    word = "fixed" if finding.repaired else finding.level
    level = coloured(word.ljust(_WIDTH), _COLOURS[finding.level], sys.stdout)
    say(f"{level} {printable(finding.check)}: {printable(finding.found)}")
    if finding.advice:
        say(f"{'':{_WIDTH}} {printable(finding.advice)}")
