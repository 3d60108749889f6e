"""`leasefs leases`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs.client import api
from leasefs_cli.lease_rows import say_leases
from leasefs_cli.moments import at_option
from leasefs_cli.place import view
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import everywhere_option, json_option, teaching_command

if TYPE_CHECKING:
    from leasefs_cli.moments import Point


@teaching_command(
    "leases",
    examples=[
        ("leasefs leases", "who holds what in this repository"),
        ("leasefs leases --all", "in every repository that the ledger knows"),
        ("leasefs leases --mine", "only what this mount holds"),
        ("leasefs leases --at 2h", "who held what two hours ago"),
    ],
)
@everywhere_option
@click.option("--mine", is_flag=True, help="Only those of the mount here.")
@at_option
@json_option
def command(everywhere: bool, mine: bool, at: Point | None, as_json: bool) -> None:
    """List held leases, oldest grant first.

    EXPIRES IN counts from the last use that the ledger heard of; KEPT BY is the process that uses the
    lease now. A lapsed lease protects nothing any more, but its holder may still get it back.

    Below the rows is told, where it is so, who recalled a lease and until when it must be given up, what is frozen
    and why, and which parts were delegated.
    """
    seen = view(everywhere=everywhere)
    if at is not None:
        from leasefs_cli.past import past

        found = past(seen, at, ("leases",))["leases"]
    else:
        found = seen.link.send(api.leases(seen.territory))["leases"]
    if mine:
        session = seen.mount.session if seen.mount else ""
        found = [lease for lease in found if lease["session"] == session]
    if as_json:
        say_json({"leases": found})
    else:
        say_leases(found)
