"""`leasefs agent whoami`."""

from __future__ import annotations

from leasefs.client import api_agents
from leasefs_cli.operating import operator_here
from leasefs_cli.printing import say_fields, say_json
from leasefs_cli.priorities import name_of
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "whoami",
    examples=[
        ("leasefs agent whoami", "does the ledger know me, and as what?"),
        ("leasefs agent whoami --json | jq -r .role", "for a script"),
    ],
)
@json_option
def command(as_json: bool) -> None:
    """Ask the ledger whom it takes you for: by your token if there is one for this ledger, else by your user.

    Fails (9) if it does not know you, and says how it would.
    """
    link = operator_here().link
    answer = link.send(api_agents.whoami())
    if as_json:
        say_json({**answer, "ledger": link.address.url})
        return
    identity = answer["identity"]
    fields = [
        ("name", answer["name"]),
        ("role", answer["role"]),
        ("known by", "an identity" if identity else "the local user, whose ledger it is"),
    ]
    if answer["priority"] is not None:
        fields.append(("priority", f"{name_of(answer['priority'])} at most"))
    say_fields([*fields, ("ledger", link.address.url)])
