"""`leasefs downgrade`."""

from __future__ import annotations

import sys

import click

from leasefs.client import api_scheduling
from leasefs.client.ids import new_key
from leasefs_cli.claim_options import agent_option
from leasefs_cli.own_claims import one_named
from leasefs_cli.place import holding_place
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "downgrade",
    examples=[
        ("leasefs downgrade L12", "let others rely on it too; from now on nobody writes there"),
        ("leasefs downgrade 'schema/**'", "by the globs that were claimed"),
    ],
)
@click.argument("lease", metavar="LEASE|GLOB")
@agent_option
@json_option
def command(lease: str, agent: str | None, as_json: bool) -> None:
    """Share a lease that you hold alone: you stop writing there, and others may hold it shared beside you.

    It keeps its id and gets a new fencing token. Whoever waits for it shared is granted at once. To write again,
    `leasefs claim --upgrade LEASE --wait`. Files that are open for writing there get no further byte out (ESTALE).

    A lease of which parts are delegated, or which is such a part, is released instead.
    """
    place = holding_place(agent, (lease,))
    id_ = one_named(place, lease)
    answer = place.link.send(api_scheduling.downgrade(id_, key=new_key()))
    if as_json:
        say_json(answer)
    elif sys.stderr.isatty():
        tell(f"{id_} is shared now: nobody may write there")
