"""`leasefs config path`."""

from __future__ import annotations

from leasefs_cli.config_here import report_here
from leasefs_cli.printing import say_columns, say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "path",
    examples=[
        ("leasefs config path", "which files are read here?"),
        ("leasefs config path --json", "for a program"),
    ],
)
@json_option
def command(as_json: bool) -> None:
    """List the files that are looked at here, each before the one that goes before it.

    The machine's must belong to root and the user's to the user, and nobody else may write them; the repository's
    comes with the repository, and says only what is left to it.
    """
    rows = []
    for file in report_here().files:
        state = "not there" if file.parsed is None else "wrong" if file.problems else "read"
        rows.append({"place": file.place, "path": file.path, "state": state})
    if as_json:
        say_json({"files": rows})
    else:
        say_columns(("PLACE", "PATH", "STATE"), [list(one.values()) for one in rows])
