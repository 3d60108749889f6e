"""`leasefs agent list`."""

from __future__ import annotations

from leasefs.client import api_agents
from leasefs_cli.agent_rows import say_agents
from leasefs_cli.operating import operator_here
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "list",
    examples=[
        ("leasefs agent list", "who there is, and who is an operator"),
        (
            "leasefs agent list --json | jq -r '.agents[] | select(.used_ago_s == null) | .agent'",
            "who was never heard of",
        ),
    ],
)
@json_option
def command(as_json: bool) -> None:
    """List identities by name: role, highest priority, local user, live sessions, when it was heard of last.

    Revoked ones are listed until their name is issued anew. No token is shown: nobody has them but their owners.
    """
    agents = operator_here().link.send(api_agents.agents())["agents"]
    if as_json:
        say_json({"agents": agents})
    else:
        say_agents(agents)
