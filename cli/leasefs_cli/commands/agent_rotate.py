"""`leasefs agent rotate`."""

from __future__ import annotations

import click

from leasefs.client import api_agents
from leasefs.core.roles import MAX_GRACE_S
from leasefs_cli.durations import Duration, in_words
from leasefs_cli.operating import operator_here
from leasefs_cli.printing import tell
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.token_out import issue


@teaching_command(
    "rotate",
    examples=[
        (
            "leasefs agent rotate ci-7 --grace 1h --token-file ci-7.new",
            "with an hour to bring the new one to where it is used",
        ),
        ("leasefs agent rotate ci-7 > ci-7.token", "the former one is good no more, at once"),
    ],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--grace",
    "grace_s",
    type=Duration(0.0, MAX_GRACE_S),
    default="0s",
    metavar="DURATION",
    help=f"How much longer the former token is good too, at most {in_words(MAX_GRACE_S)}. Default 0s.",
)
@click.option(
    "--token-file",
    metavar="PATH",
    help="Write the token there, into a new file of mode 0600, and not to stdout.",
)
@json_option
def command(name: str, grace_s: float, token_file: str | None, as_json: bool) -> None:
    """As operator, give the identity NAME another token, and print it, once.

    Sessions that it has open go on. If somebody else may have had the former token, `leasefs agent revoke` it instead and
    add it anew: that ends those sessions as well.
    """
    link, by = operator_here()
    issue(
        lambda token: link.send(api_agents.rotate_agent(name, token, grace_s=grace_s, by=by)),
        token_file,
        as_json=as_json,
    )
    if token_file and not as_json:
        tell(f"the new token of {name} is in {token_file}")
