"""`leasefs heartbeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs.client import api
from leasefs.core.errors import LeaseLost, UnknownLease
from leasefs_cli.durations import in_words
from leasefs_cli.own_claims import ids_named, own_leases
from leasefs_cli.place import Place, holding_place
from leasefs_cli.printing import say_columns, say_json, tell
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from collections.abc import Sequence


@teaching_command(
    "heartbeat",
    examples=[
        ("leasefs heartbeat", "renew all that you hold, for one more TTL"),
        ('leasefs heartbeat "$id"', "and fail if this one is lost"),
    ],
)
@click.argument("names", metavar="[LEASE|GLOB]...", nargs=-1)
@click.option("--agent", metavar="NAME", help="Who you are outside a mount.")
@json_option
def command(names: tuple[str, ...], agent: str | None, as_json: bool) -> None:
    """Renew leases now, as if they had just been used.

    Seldom needed: a mount renews by itself what is open for writing or was just written, and
    `leasefs run` what its command needs. This is for work that touches no file for longer than the TTL,
    and for leases claimed outside a mount.

    Fails (5) if a lease named, or without names any lease held, is lost.
    """
    place = holding_place(agent, names)
    wanted = ids_named(place, names)
    answer = _renewed(place, wanted)
    _complain(answer, wanted)
    renewed = [lease for lease in answer["renewed"] if not wanted or lease["lease"] in wanted]
    if as_json:
        say_json({"renewed": renewed})
    elif renewed:
        say_columns(
            ("LEASE", "GOOD FOR"),
            [(lease["lease"], in_words(lease["ttl_s"])) for lease in renewed],
        )
    else:
        tell("nothing is held, so there was nothing to renew")


def _renewed(place: Place, wanted: Sequence[str]) -> api.Body:
    if place.mount is not None:
        return place.link.send(api.renew_mount())
    beats = [
        {"lease": lease["lease"], "token": lease["token"], "kept_by": ["leasefs heartbeat"]}
        for lease in own_leases(place)
        if not wanted or lease["lease"] in wanted
    ]
    return place.link.send(api.heartbeat(place.session, beats))


def _complain(answer: api.Body, wanted: Sequence[str]) -> None:
    for lost in answer["lost"]:
        if not wanted or lost["lease"] in wanted:
            raise LeaseLost(lost["lease"], lost["reason"])
    renewed = {lease["lease"] for lease in answer["renewed"]}
    for id_ in wanted:
        if id_ not in renewed:
            raise UnknownLease(id_)
