"""`leasefs queue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs_cli.moments import at_option
from leasefs_cli.place import view
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import everywhere_option, json_option, teaching_command
from leasefs_cli.waiter_rows import say_waiters

if TYPE_CHECKING:
    from leasefs_cli.moments import Point


@teaching_command(
    "queue",
    examples=[
        ("leasefs queue", "who waits for what in this repository"),
        ("leasefs queue --all --json", "in every repository, for a program"),
        ("leasefs queue --at 14:30", "who waited for what at half past two"),
    ],
)
@everywhere_option
@at_option
@json_option
def command(everywhere: bool, at: Point | None, as_json: bool) -> None:
    """List waiting claims in the order in which they will be served.

    POSITION counts the conflicting claims before one, so 1 is next; where the globs of a claim have different
    places, each has its own in brackets. Whoever waits for 5 minutes has caught up with one level of PRIORITY, so
    nobody waits for ever.

    WAITS FOR names holders (of a recalled one: when it yields at the latest), earlier claims, freezes with their
    reason, and admission, which is no holder but a limit on how much work there is at once (`leasefs admission`).

    ETA is an estimate from how long leases like those in the way were held in the past, in brackets with the quarter
    of cases to either side and how many holds that rests on; unknown if there were none, and where nobody can know,
    as with freezes and admission.
    """
    seen = view(everywhere=everywhere)
    if at is not None:
        from leasefs_cli.past import past

        found = past(seen, at, ("waiters",))["waiters"]
    else:
        found = seen.link.send(api.queue(seen.territory))["waiters"]
    if as_json:
        say_json({"waiters": found})
    else:
        say_waiters(found)
