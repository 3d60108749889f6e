"""`leasefs delegate`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.client.understand import understand
from leasefs.core.errors import InvalidRequest, UnknownLease
from leasefs.core.lease import MAX_TTL_S, MIN_TTL_S
from leasefs_cli.claim_options import agent_option, literal_option
from leasefs_cli.durations import Duration
from leasefs_cli.own_claims import one_named
from leasefs_cli.place import holding_place
from leasefs_cli.printing import say_at_once, say_json
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs_cli.place import Place

# A mount asks git about every changed path first, and a rescue reads them all.
PATIENCE_S = 60.0


@teaching_command(
    "delegate",
    examples=[
        (
            "leasefs delegate L12 'packages/core/table/**' --to agent-31",
            "a planner gives a worker its part; the part's own lease id is printed",
        ),
        (
            "leasefs delegate L12 docs --to agent-31 --note 'the API page only' --ttl 10m",
            "with a note that the worker is shown",
        ),
        ("leasefs delegate L12 --to agent-31", "all of it"),
        ("leasefs recall L31 --within 2m", "have it back before the worker is done"),
    ],
)
@click.argument("lease", metavar="LEASE")
@click.argument("globs", metavar="[GLOB...]", nargs=-1)
@click.option("--to", metavar="AGENT", required=True, help="Who gets it; must have a live session.")
@click.option(
    "--ttl",
    "ttl_s",
    type=Duration(MIN_TTL_S, MAX_TTL_S),
    metavar="DURATION",
    help="How long the part outlives its last use. Default that of LEASE.",
)
@click.option("--note", default="", metavar="TEXT", help="For the agent who gets it.")
@literal_option
@click.option(
    "--rescue", is_flag=True, help="Keep uncommitted changes there in a rescue first (in a mount)."
)
@click.option(
    "--keep", is_flag=True, help="Leave uncommitted changes there in the tree, listed as yours."
)
@agent_option
@json_option
def command(
    lease: str,
    globs: tuple[str, ...],
    to: str,
    ttl_s: float | None,
    note: str,
    literal: bool,
    rescue: bool,
    keep: bool,
    agent: str | None,
    as_json: bool,
) -> None:
    """Give a part of your lease to another agent. You write there no more until it comes back.

    The GLOBs must lie wholly inside the lease; without any it is all of it. The other agent has a lease of its own over them, and may delegate
    parts of it in turn, three times over at most. The part comes back when it is released, lapses, or is recalled
    (`leasefs recall`), and when your lease is revoked or recalled, so is the part.

    Where something of yours is uncommitted nothing is delegated (6): commit it, or choose --rescue or --keep.
    """
    if rescue and keep:
        raise click.UsageError("choose one of --rescue and --keep")
    place = holding_place(agent, (lease,))
    if rescue and place.mount is None:
        raise InvalidRequest(
            "only a mount can make a rescue, and this is not one; go to the mount that holds the lease"
        )
    id_ = one_named(place, lease)
    call = api_scheduling.delegate(
        id_,
        _part(place, id_, globs, literal=literal),
        to=to,
        key=new_key(),
        ttl_s=ttl_s,
        note=note,
        dirty="rescue" if rescue else "keep" if keep else "refuse",
    )
    answer = place.link.send(call._replace(patience_s=PATIENCE_S) if place.mount else call)
    if as_json:
        say_json(answer)
    else:
        say_at_once(answer["lease"])


def _part(place: Place, lease: str, globs: tuple[str, ...], *, literal: bool) -> list[str]:
    if globs:
        cwd = os.getcwd()
        return [understand(glob, place.roots, cwd, literal=literal).glob for glob in globs]
    held = place.link.send(api.lease(lease))
    if not held.get("globs"):
        raise UnknownLease(lease)
    return list(held["globs"])
