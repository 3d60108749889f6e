"""`leasefs ledger reopen`."""

from __future__ import annotations

from leasefs.client import api_scheduling
from leasefs_cli.operating import operator_here
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "reopen",
    examples=[("leasefs ledger reopen", "every mount has heard that its leases are over")],
)
@json_option
def command(as_json: bool) -> None:
    """As operator, let a ledger that was brought back from a backup grant claims again now.

    It would by itself, once nobody can trust a lease any more that the backup does not know of. Sooner is safe only if no mount
    writes under such a lease: each has been stopped, or is connected to this ledger again and so has heard that its leases are lost.
    Nothing happens to a ledger that grants anyway.
    """
    operator = operator_here()
    answer = operator.link.send(api_scheduling.reopen(by=operator.name))
    if as_json:
        say_json(answer)
    else:
        tell("claims are granted")
