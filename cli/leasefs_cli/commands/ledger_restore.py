"""`leasefs ledger restore`."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from leasefs.core.errors import ClaimConflict
from leasefs.core.lease import MAX_TTL_S
from leasefs_cli.durations import Duration, in_words
from leasefs_cli.printing import say, say_json, tell
from leasefs_cli.progress import Progress
from leasefs_cli.store_place import own_store, told_as_failures
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "restore",
    examples=[
        (
            "leasefs ledger stop && leasefs ledger restore ledger.db --replace",
            "one's own; unmount first, for a mount starts it again at once",
        ),
        (
            "leasefs ledger restore --store /var/lib/leasefs/ledger /srv/backup/ledger.db",
            "to an empty place, as the account that serves it",
        ),
        (
            "leasefs ledger restore ledger.db --replace --closed-for 30m",
            "nobody had a lease with a longer time to live",
        ),
    ],
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--store",
    metavar="DIR",
    help="The store of a ledger. Default: this user's own, if commands here speak to that.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="There is a ledger, and the backup takes its place. What was there is kept beside.",
)
@click.option(
    "--closed-for",
    "closed_for_s",
    type=Duration(0.0, MAX_TTL_S),
    metavar="DURATION",
    help="How long nothing is granted: as long as anybody may still trust a lease that the backup does not know of. Default: as "
    "the leases of a sound ledger that is replaced say, else 24 hours, the longest time to live there is.",
)
@json_option
def command(
    file: str, store: str | None, replace: bool, closed_for_s: float | None, as_json: bool
) -> None:
    """Bring a backup back, to a ledger that is stopped. Refused (3) while it is served, and over a ledger that is there.

    The backup does not know what happened after it, so none of its leases is believed: they are over, also those that mounts hold
    since. Each mount hears that when it next reaches the ledger, stops writing, and keeps what is uncommitted in a rescue. Claims
    wait for --closed-for; `leasefs ledger reopen` ends that when you know better. Numbers, and so fencing tokens, go on beyond all
    that were handed out. Tokens of identities that were revoked since the backup are good again: revoke them anew.
    """
    from leasefs.service.auth import user_name
    from leasefs.service.restoring import restore
    from leasefs.store.errors import StoreLocked

    place = os.path.abspath(store) if store else own_store()
    try:
        with told_as_failures(f"restore {place}"), Progress("copying") as progress:
            done = restore(
                file,
                place,
                by=user_name(os.geteuid()),
                over=replace,
                closed_for_s=closed_for_s,
                told=progress.so_far,
            )
    except ClaimConflict as error:
        if store is None and isinstance(error.__cause__, StoreLocked):
            error.add_note(
                "a mount of yours starts it again at once: `leasefs unmount` each before you stop it"
            )
        raise
    if as_json:
        say_json(asdict(done))
        return
    lost = f"; {done.head_before - done.backup_seq} later ones are lost" * bool(done.head_before)
    say(f"{done.path}: brought back up to event {done.backup_seq}{lost}; goes on at {done.seq + 1}")
    if done.aside:
        tell(f"what was there lies in {done.aside}")
    tell(
        f"leases that are over: {done.leases_ended}; nothing is granted for {in_words(done.closed_for_s)} "
        "(`leasefs ledger reopen` when no mount writes under an old lease)"
    )
