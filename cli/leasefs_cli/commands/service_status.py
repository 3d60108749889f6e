"""`leasefs service status`."""

from __future__ import annotations

from typing import Any

from leasefs_cli.exit_codes import DONE, UNEXPECTED
from leasefs_cli.printing import say, say_columns, say_json
from leasefs_cli.service_options import files_told, flavour_of, flavour_options
from leasefs_cli.systemctl import units
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.unit_files import own_command

_COLOURS = {"installed": "green", "changed": "yellow", "missing": "red"}
_UNIT_COLOURS = {"active": "green", "failed": "red", "activating": "yellow"}


@teaching_command(
    "status",
    own_codes=[
        ("0", "all files are as they should be and no unit failed"),
        ("1", "a file is missing or changed, or a unit failed"),
    ],
    examples=[
        ("leasefs service status", "the machine's ledger and mounts"),
        ("leasefs service status --user --json | jq '.units[]'", "your own, for a program"),
    ],
)
@flavour_options
@json_option
def command(user: bool, root: str | None, program: str | None, as_json: bool) -> int:
    """Show whether each file is installed, changed (by hand, or of another version) or missing.

    And how each unit does: what it says of itself, and how often it had to be restarted.
    """
    flavour = flavour_of(user=user, root=root, changes=False)
    with files_told():
        states = flavour.states(own_command(program, flavour))
        files = [(file.path, state) for file, state in states]
    loaded = [] if flavour.root else units(flavour)
    if as_json:
        rows = [{"path": path, "state": state} for path, state in files]
        say_json({"files": rows, "units": loaded})
    else:
        _say(files, loaded)
    fine = all(state == "installed" for _, state in files)
    return DONE if fine and all(unit["active"] != "failed" for unit in loaded) else UNEXPECTED


def _say(files: list[tuple[str, str]], loaded: list[dict[str, Any]]) -> None:
    say_columns(
        ("STATE", "FILE"),
        [(state, path) for path, state in files],
        colours=[_COLOURS[state] for _, state in files],
    )
    if not loaded:
        return
    say("")
    say_columns(
        ("ACTIVE", "UNIT", "ENABLED", "RESTARTS", "SAYS"),
        [
            (
                unit["active"],
                unit["unit"],
                unit["enabled"] or "-",
                str(unit["restarts"]),
                unit["status"] or "-",
            )
            for unit in loaded
        ],
        right=frozenset({3}),
        colours=[_UNIT_COLOURS.get(unit["active"], "") for unit in loaded],
    )
