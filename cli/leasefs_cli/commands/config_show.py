"""`leasefs config show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs.client.config import setting_named
from leasefs.core.settings import SETTINGS
from leasefs_cli import setting_names
from leasefs_cli.config_here import report_here
from leasefs_cli.config_rows import as_json as json_of
from leasefs_cli.config_rows import is_said, row
from leasefs_cli.exit_codes import DONE, USAGE
from leasefs_cli.printing import say_columns, say_json, tell
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs.client.config_report import Report
    from leasefs.core.setting import Setting


@teaching_command(
    "show",
    own_codes=[("2", "something that is configured is wrong; all the rest is shown")],
    examples=[
        ("leasefs config show", "what differs from the defaults, and where that is said"),
        ("leasefs config show claim ledger.url", "a whole table, and one setting"),
        ("leasefs config show --all --json", "every setting, with its kind, variable and files"),
    ],
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=setting_names.names)
@click.option("--all", "everything", is_flag=True, help="Those that nobody says, too.")
@json_option
def command(names: tuple[str, ...], everything: bool, as_json: bool) -> int:
    """Show settings, each with its value and where that is said: a file and its line, a variable, or `-c`.

    Without NAMEs those that somebody says. A NAME is a setting, or a table such as `claim` for all in it.
    What is wrong with files and variables is told on stderr, and the rest is shown all the same.
    """
    report = report_here()
    wanted = _wanted(names, report, everything=everything)
    troubles = list(report.troubles())
    if as_json:
        say_json(
            {
                "settings": [json_of(setting, report) for setting in wanted],
                "troubles": [trouble._asdict() for trouble in troubles],
            }
        )
    elif wanted:
        say_columns(("SETTING", "VALUE", "SAID BY"), [row(setting, report) for setting in wanted])
    else:
        tell("nothing differs from the defaults; --all shows those")
    for trouble in troubles:
        tell(f"{trouble.where}: {trouble.words}")
    return USAGE if any(trouble.fatal for trouble in troubles) else DONE


def _wanted(names: tuple[str, ...], report: Report, *, everything: bool) -> list[Setting]:
    """Raises InvalidRequest for a name that is neither a setting nor a table."""
    if not names:
        return [one for one in SETTINGS.values() if everything or is_said(one, report)]
    found: dict[str, Setting] = {}
    for name in names:
        inside = [one for one in SETTINGS.values() if one.name.startswith(f"{name}.")]
        found |= {one.name: one for one in inside or [setting_named(name)]}
    return list(found.values())
