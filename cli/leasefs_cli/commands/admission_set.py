"""`leasefs admission set`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.core.errors import ClaimConflict
from leasefs_cli.admission_rows import NONE, Limit, Share, say_admission
from leasefs_cli.durations import Duration
from leasefs_cli.operating import governed_here
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasefs_cli.operating import Governed

MOST = 1_000_000
_COUNT = Limit(click.IntRange(0, MOST))

# Somebody else's change came in between so many times: that is no coincidence any more.
ATTEMPTS = 10


@teaching_command(
    "set",
    examples=[
        (
            "leasefs admission set --max-exclusive 40 --max-unlanded 60 --reason 'CI takes 30 min'",
            "no more work at once than can land",
        ),
        (
            "leasefs admission set --max-leases 3 --max-share 20% --max-hold 2h",
            "so that a claim of ** is not the easy way out",
        ),
        ("leasefs admission set --max-exclusive none", "lift one of them"),
    ],
)
@click.option(
    "--max-exclusive",
    type=_COUNT,
    metavar="N",
    help="Live exclusive leases; a claim above it waits.",
)
@click.option(
    "--max-unlanded",
    type=_COUNT,
    metavar="N",
    help="Leases whose work has not landed, live or over; a claim while there are so many waits.",
)
@click.option(
    "--max-leases", type=_COUNT, metavar="N", help="Of one agent; a claim above it is refused."
)
@click.option(
    "--max-share",
    type=Limit(Share()),
    metavar="PERCENT",
    help="Of the territory's files under one lease, like 20%; a claim above it is refused.",
)
@click.option(
    "--max-hold",
    "max_hold_s",
    type=Limit(Duration(1.0, 366 * 86400.0)),
    metavar="DURATION",
    help="How long a lease may be held before it is recalled; `leasefs hold` lets one be held for longer.",
)
@click.option("--reason", metavar="TEXT", help="What whoever has to wait is told.")
@json_option
def command(as_json: bool, reason: str | None, **given: object) -> None:
    """As operator, or from CI, change limits of the territory here. Those not named stay; `none` lifts one.

    What is granted stays granted. Whoever waited for a limit that is now higher is granted at once.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    if not wanted and reason is None:
        raise click.UsageError("name a limit to change; `leasefs admission clear` lifts all")
    here = governed_here()
    wanted = {name: None if value == NONE else value for name, value in wanted.items()}
    if reason is not None:
        wanted["reason"] = reason
    answer = _changed(here, [*given, "reason"], wanted)
    if as_json:
        say_json(answer)
    else:
        say_admission(answer)


def _changed(here: Governed, names: Sequence[str], wanted: Mapping[str, object]) -> api.Body:
    """Change what is wanted of the limits as they are; if others were set meanwhile, of those."""
    attempt = 0
    while True:
        attempt += 1
        now = here.link.send(api_scheduling.admission(here.territory))["admission"]
        limits = {name: now[name] for name in names} | dict(wanted)
        # A ledger of an earlier version does not count its limits.
        version = now.get("version")
        call = api_scheduling.set_admission(
            here.territory, limits, key=new_key(), expected=version, by=here.name
        )
        try:
            return here.link.send(call)
        except ClaimConflict:
            if attempt == ATTEMPTS:
                raise
