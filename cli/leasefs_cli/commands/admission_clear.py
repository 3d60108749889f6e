"""`leasefs admission clear`."""

from __future__ import annotations

from leasefs.client import api_scheduling
from leasefs.client.ids import new_key
from leasefs_cli.operating import governed_here
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command("clear", examples=[("leasefs admission clear", "CI is green again")])
@json_option
def command(as_json: bool) -> None:
    """As operator, lift all limits of the territory here. Whoever waited for them is granted at once."""
    here = governed_here()
    answer = here.link.send(
        api_scheduling.set_admission(here.territory, {}, key=new_key(), by=here.name)
    )
    if as_json:
        say_json(answer)
