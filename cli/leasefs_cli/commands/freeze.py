"""`leasefs freeze`."""

from __future__ import annotations

import os

import click

from leasefs.client import api_scheduling
from leasefs.client.ids import new_key
from leasefs.client.understand import understand
from leasefs_cli.claim_options import MAX_WITHIN_S, literal_option
from leasefs_cli.durations import Duration
from leasefs_cli.operating import governed_here
from leasefs_cli.printing import say_at_once, say_json, tell
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.waiter_rows import blockers_of

MAX_FREEZE_S = 366 * 86400.0


@teaching_command(
    "freeze",
    examples=[
        (
            "leasefs freeze packages/core/table.py --reason 'about to be split' --for 2h",
            "nobody writes it for two hours",
        ),
        ("leasefs freeze '**' --reason 'release 2.4 is cut'", "until `leasefs unfreeze`"),
        ("leasefs freezes", "what is frozen, and why"),
    ],
)
@click.argument("globs", metavar="GLOB...", nargs=-1, required=True)
@click.option("--reason", required=True, metavar="TEXT", help="What every refusal there quotes.")
@click.option(
    "--within",
    "within_s",
    type=Duration(0.0, MAX_WITHIN_S),
    default="1m",
    metavar="DURATION",
    help="How long those who write there have, at most 1h. Default 1m; 0s stops their writes at once.",
)
@click.option(
    "--for",
    "for_s",
    type=Duration(1.0, MAX_FREEZE_S),
    metavar="DURATION",
    help="How long it lasts. Default until it is lifted.",
)
@literal_option
@json_option
def command(
    globs: tuple[str, ...],
    reason: str,
    within_s: float,
    for_s: float | None,
    literal: bool,
    as_json: bool,
) -> None:
    """As operator, let nobody write where the GLOBs match, whatever priority they have.

    Prints the freeze's id. Leases that are in the way are recalled, whoever has them; until the last is given up the
    freeze waits, before all other claims. Who had to yield is first to have the ground back when it is lifted.
    `leasefs unfreeze ID` lifts it.
    """
    here = governed_here()
    cwd = os.getcwd()
    call = api_scheduling.freeze(
        [understand(glob, here.roots, cwd, literal=literal).glob for glob in globs],
        territory=here.territory,
        key=new_key(),
        reason=reason,
        within_s=within_s,
        ttl_s=for_s,
        by=here.name,
    )
    answer = here.link.send(call)
    if as_json:
        say_json(answer)
        return
    if answer["state"] == "waiting":
        tell(f"{answer['lease']} is frozen as soon as these have yielded: {blockers_of(answer)}")
    say_at_once(answer["lease"])
