"""`leasefs agent add`."""

from __future__ import annotations

import click

from leasefs.client import api_agents
from leasefs.core.roles import Role
from leasefs_cli.operating import operator_here
from leasefs_cli.printing import tell
from leasefs_cli.priorities import Priority
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.token_out import issue


@teaching_command(
    "add",
    examples=[
        ("leasefs agent add ci-7 --token-file ci-7.token", "for a job of another machine"),
        ("leasefs agent add ci-7 > ci-7.token", "the same; the file is closed to others"),
        ("leasefs agent add bo --user bo", "for another user of this machine, who needs no token"),
        (
            "leasefs agent add ann --role operator --user ann",
            "who may end leases and freeze in her own name",
        ),
        (
            "leasefs agent add nightly --priority background",
            "which gives way to whoever else wants the ground",
        ),
    ],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    type=click.Choice([str(role) for role in Role]),
    default=str(Role.AGENT),
    help="What it may do: read; also claim; also decide for others. Default agent.",
)
@click.option(
    "--user",
    default="",
    metavar="USER",
    help="The one user of the ledger's machine, by name or number, whom it belongs to.",
)
@click.option(
    "--priority",
    type=Priority(),
    metavar="CLASS",
    help="The highest it may claim with: human, urgent, normal, background or a number. Default normal, of operators human.",
)
@click.option(
    "--token-file",
    metavar="PATH",
    help="Write the token there, into a new file of mode 0600, and not to stdout.",
)
@json_option
def command(
    name: str, role: str, user: str, priority: int | None, token_file: str | None, as_json: bool
) -> None:
    """As operator, issue an identity named NAME, and print its token, once.

    The agent has sessions under this name and no other. With --user it belongs to that user of the ledger's machine, who
    is known by it without the token, and nobody else of that machine may use the token. A name that was revoked can be
    issued anew.

    Give the token to who it is for, as a file that only they can read; LEASEFS_TOKEN_FILE names it to leasefs.
    """
    link, by = operator_here()
    issue(
        lambda token: link.send(
            api_agents.add_agent(name, token, role=role, user=user, priority=priority, by=by)
        ),
        token_file,
        as_json=as_json,
    )
    if token_file and not as_json:
        tell(f"{name} is an {role} now; its token is in {token_file}")
