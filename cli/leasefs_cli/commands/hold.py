"""`leasefs hold`."""

from __future__ import annotations

import click

from leasefs.client import api_scheduling
from leasefs.client.ids import new_key
from leasefs_cli.durations import Duration, in_words
from leasefs_cli.operating import lease_id, operator_here
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command

MAX_HOLD_S = 366 * 86400.0


@teaching_command(
    "hold",
    examples=[
        ("leasefs hold L12 4h", "let this one run on, the migration takes that long"),
        ("leasefs hold L12 0s", "have it recalled now, as if its time were over"),
    ],
)
@click.argument("lease")
@click.argument("hold_s", metavar="DURATION", type=Duration(0.0, MAX_HOLD_S))
@json_option
def command(lease: str, hold_s: float, as_json: bool) -> None:
    """As operator, let LEASE be held for DURATION from now, whatever its territory's limit says.

    That limit is `leasefs admission set --max-hold`. A lease that is recalled already stays so.
    """
    id_ = lease_id(lease)
    operator = operator_here()
    answer = operator.link.send(api_scheduling.hold(id_, hold_s, key=new_key(), by=operator.name))
    if as_json:
        say_json(answer)
    else:
        tell(f"{lease} of {answer['agent']} may be held for {in_words(hold_s)} from now")
