"""`leasefs recall`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs.client import api_scheduling
from leasefs.core.errors import Denied
from leasefs_cli.claim_options import MAX_WITHIN_S
from leasefs_cli.durations import Duration
from leasefs_cli.lease_notes import recall_words
from leasefs_cli.operating import holder_here, lease_id, operator_here
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs.client import api
    from leasefs.client.blocking import Link


@teaching_command(
    "recall",
    examples=[
        ("leasefs recall L12 --within 2m --reason 'the release is cut'", "as operator"),
        ("leasefs recall L31", "have back what you delegated"),
        ("leasefs recall L12 --within 0s", "stop its writes at once; uncommitted work is rescued"),
    ],
)
@click.argument("lease")
@click.option(
    "--within",
    "within_s",
    type=Duration(0.0, MAX_WITHIN_S),
    default="30s",
    metavar="DURATION",
    help="How long the holder has, at most 1h. Default 30s; 0s stops its writes at once.",
)
@click.option("--reason", default="", metavar="TEXT", help="What the holder is told.")
@json_option
def command(lease: str, within_s: float, reason: str, as_json: bool) -> None:
    """Have the holder of LEASE give it up by a deadline, as operator, or what you delegated.

    The holder's mount gives it up as soon as no file is open for writing there and its work is committed. At the
    deadline uncommitted work is kept in a rescue, and the lease is revoked. Either way the holder's claim is queued
    again by itself. It may ask for more time once (`leasefs more-time`). What was carved out of the lease is recalled
    with it.

    A claim of higher priority recalls by itself: `leasefs claim --recall`.
    """
    id_ = lease_id(lease)
    operator = operator_here()
    call = api_scheduling.recall(id_, within_s=within_s, reason=reason, by=operator.name)
    answer = _recalled(operator.link, call)
    if as_json:
        say_json(answer)
    elif answer.get("recall"):
        tell(f"{recall_words(lease, answer['recall'])} (told to {answer['agent']})")
    else:
        tell(f"{lease} of {answer['agent']} is {answer['state']} already")


def _recalled(ledger: Link, call: api.Call) -> api.Body:
    """As operator; who is none may be the one that delegated it, and the mount knows."""
    try:
        return ledger.send(call)
    except Denied:
        mount = holder_here()
        if mount is None:
            raise
    return mount.send(call)
