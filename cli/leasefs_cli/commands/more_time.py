"""`leasefs more-time`."""

from __future__ import annotations

import click

from leasefs.client import api_scheduling
from leasefs.client.ids import new_key
from leasefs_cli.claim_options import MAX_WITHIN_S, agent_option
from leasefs_cli.durations import Duration, in_words
from leasefs_cli.own_claims import one_named
from leasefs_cli.place import holding_place
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "more-time",
    examples=[("leasefs more-time L12 30s", "the tests still run, then it is committed")],
)
@click.argument("lease", metavar="LEASE|GLOB")
@click.argument("extra_s", metavar="DURATION", type=Duration(0.001, MAX_WITHIN_S))
@agent_option
@json_option
def command(lease: str, extra_s: float, agent: str | None, as_json: bool) -> None:
    """Ask for more time before a recalled lease of yours must be given up: once, and no more than it was at first.

    `leasefs leases` and `leasefs status` say which are recalled, by whom, and until when.
    """
    place = holding_place(agent, (lease,))
    id_ = one_named(place, lease)
    answer = place.link.send(api_scheduling.more_time(id_, extra_s, key=new_key()))
    if as_json:
        say_json(answer)
    else:
        recall = answer.get("recall") or {}
        tell(
            f"{id_} must be given up within {in_words(recall.get('yields_in_s', 0.0))}, and no later"
        )
