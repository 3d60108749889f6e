"""`leasefs hooks status`."""

from __future__ import annotations

from leasefs.core.errors import InvalidRequest
from leasefs.vcs.errors import VcsError
from leasefs.vcs.hooks import hooks_place, status
from leasefs_cli.exit_codes import DONE, UNEXPECTED
from leasefs_cli.hook_rows import as_json_rows, say_hooks
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "status",
    own_codes=[("0", "all are installed"), ("1", "one is missing or changed")],
    examples=[
        ("leasefs hooks status", "for a person"),
        ("leasefs hooks status >/dev/null || leasefs hooks install", "in a set-up script"),
    ],
)
@json_option
def command(as_json: bool) -> int:
    """Show how each hook stands: installed, changed (by another version or by hand) or missing."""
    try:
        place = hooks_place()
    except VcsError as error:
        raise InvalidRequest(str(error)) from error
    states = status(place)
    if as_json:
        say_json(as_json_rows(place, states))
    else:
        say_hooks(states)
    return DONE if all(state.state == "installed" for state in states) else UNEXPECTED
