"""`leasefs unfreeze`."""

from __future__ import annotations

import click

from leasefs.client import api_scheduling
from leasefs.client.ids import new_key
from leasefs_cli.operating import lease_id, operator_here
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command("unfreeze", examples=[("leasefs unfreeze L60", "what `leasefs freeze` printed")])
@click.argument("freeze", metavar="ID")
@json_option
def command(freeze: str, as_json: bool) -> None:
    """As operator, lift a freeze, or give up one that still waits for holders to yield.

    Whoever was recalled for it has the ground back at once.
    """
    id_ = lease_id(freeze)
    operator = operator_here()
    answer = operator.link.send(api_scheduling.unfreeze(id_, key=new_key(), by=operator.name))
    if as_json:
        say_json(answer)
