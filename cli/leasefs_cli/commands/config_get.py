"""`leasefs config get`."""

from __future__ import annotations

import click

from leasefs.client.config import setting_named
from leasefs_cli.config_here import found_here, report_here
from leasefs_cli.config_rows import as_json as json_of
from leasefs_cli.config_rows import plain
from leasefs_cli.printing import printable, say, say_json
from leasefs_cli.setting_names import names
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "get",
    examples=[
        ("leasefs config get ledger.url", "empty: the ledger is one of your own"),
        ("leasefs config get claim.ttl_s --json", "with who says so"),
    ],
)
@click.argument("name", shell_complete=names)
@json_option
def command(name: str, as_json: bool) -> None:
    """Print the value of the setting NAME, and nothing else: an empty line if it has none.

    Fails as every command that needs it would, if something that is configured is wrong (2).
    """
    setting = setting_named(name)
    found = found_here(name)
    if as_json:
        say_json(json_of(setting, report_here()))
    else:
        say(printable(plain(found.value)))
