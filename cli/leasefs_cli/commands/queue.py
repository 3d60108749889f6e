"""`leasefs queue`."""

from __future__ import annotations

from leasefs.client import api
from leasefs_cli.lease_rows import say_waiters
from leasefs_cli.place import view
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import everywhere_option, json_option, teaching_command


@teaching_command(
    "queue",
    examples=[
        ("leasefs queue", "who waits for what in this repository"),
        ("leasefs queue --all --json", "in every repository, for a program"),
    ],
)
@everywhere_option
@json_option
def command(everywhere: bool, as_json: bool) -> None:
    """List waiting claims in the order in which they will be served.

    POSITION counts the conflicting claims before one, so 1 is next. ETA is an estimate from how long
    leases were held in the past.
    """
    seen = view(everywhere=everywhere)
    found = seen.link.send(api.queue(seen.territory))["waiters"]
    if as_json:
        say_json({"waiters": found})
    else:
        say_waiters(found)
