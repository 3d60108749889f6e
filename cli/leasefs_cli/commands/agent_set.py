"""`leasefs agent set`."""

from __future__ import annotations

import click

from leasefs.client import api_agents
from leasefs.core.roles import Role
from leasefs_cli.agent_rows import say_agents
from leasefs_cli.operating import operator_here
from leasefs_cli.printing import say_json
from leasefs_cli.priorities import Priority
from leasefs_cli.teaching import json_option, teaching_command

NOBODY = "none"


@teaching_command(
    "set",
    examples=[
        ("leasefs agent set ci-7 --priority urgent", "so that it may recall what others hold"),
        ("leasefs agent set ann --role operator --user ann", "who decides in her own name"),
        ("leasefs agent set bo --user none", "known by a token only from here on"),
    ],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--role", type=click.Choice([str(role) for role in Role]), help="What it may do from here on."
)
@click.option(
    "--user",
    metavar="USER",
    help="The one user of the ledger's machine whom it belongs to, by name or number; `none` for nobody.",
)
@click.option(
    "--priority",
    type=Priority(),
    metavar="CLASS",
    help="The highest it may claim with: human, urgent, normal, background or a number.",
)
@json_option
def command(
    name: str, role: str | None, user: str | None, priority: int | None, as_json: bool
) -> None:
    """As operator, change what the identity NAME may do, or whose it is. Its token and its sessions stay.

    What is granted stays granted, with the priority it was claimed with.
    """
    if role is None and user is None and priority is None:
        raise click.UsageError("name what is to change: --role, --user or --priority")
    link, by = operator_here()
    whose = "" if user == NOBODY else user
    answer = link.send(
        api_agents.change_agent(name, role=role, user=whose, priority=priority, by=by)
    )
    if as_json:
        say_json(answer)
    else:
        say_agents([answer])
