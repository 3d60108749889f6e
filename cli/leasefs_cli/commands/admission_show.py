"""`leasefs admission show`."""

from __future__ import annotations

from leasefs.client import api_scheduling
from leasefs_cli.admission_rows import say_admission
from leasefs_cli.operating import governed_here
from leasefs_cli.place import view
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "show",
    examples=[
        ("leasefs admission show", "for a person"),
        ("leasefs admission show --json | jq .unlanded", "for a job of CI"),
    ],
)
@json_option
def command(as_json: bool) -> None:
    """Show the limits of the territory here, and how much of them is used."""
    territory = governed_here().territory
    answer = view().link.send(api_scheduling.admission(territory))
    if as_json:
        say_json(answer)
    else:
        say_admission(answer)
