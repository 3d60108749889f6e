"""`leasefs agent revoke`."""

from __future__ import annotations

import click

from leasefs.client import api_agents
from leasefs_cli.operating import operator_here
from leasefs_cli.printing import say, say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "revoke",
    examples=[
        ("leasefs agent revoke ci-7", "its token got into the wrong hands"),
        ("leasefs agent add ci-7 > ci-7.token", "and then anew"),
    ],
)
@click.argument("name", metavar="NAME")
@json_option
def command(name: str, as_json: bool) -> None:
    """As operator, end the identity NAME: no token of it is good any more.

    Its sessions lose all that they hold, as by `leasefs release --force`, and leave every queue. A mount keeps what is
    uncommitted in a rescue first; its ground is free once it has heard of it, at the latest when the leases would have
    expired. Revoking what is revoked already is no failure.
    """
    link, by = operator_here()
    answer = link.send(api_agents.revoke_agent(name, by=by))
    if as_json:
        say_json(answer)
    else:
        say(f"{answer['agent']} is revoked, by {answer['revoked_by']}")
