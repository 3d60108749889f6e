"""`leasefs rescue list`."""

from __future__ import annotations

from leasefs.vcs.rescue import rescues
from leasefs_cli.printing import say_json
from leasefs_cli.rescue_place import rescue_place
from leasefs_cli.rescue_rows import merged, say_rescues
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "list",
    examples=[
        ("leasefs rescue list", "what lies in this repository, and in others of the territory"),
        ("leasefs rescue list --json | jq -r '.rescues[].id'", "their ids, for a program"),
    ],
)
@json_option
def command(as_json: bool) -> None:
    """List what was kept, newest first: in the repository here, and elsewhere as far as the ledger knows.

    With the ledger away, only what lies here is listed.
    """
    with rescue_place() as place:
        local = rescues(place.repository) if place.repository else []
        rows = merged(local, place.known())
    if as_json:
        say_json({"rescues": rows})
    else:
        say_rescues(rows)
