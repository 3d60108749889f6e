"""`leasefs ledger compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from leasefs.client import api, api_history
from leasefs.client.blocking import Link
from leasefs.client.clock import pause
from leasefs.client.paths import ledger_url
from leasefs.core.errors import ClaimConflict, LedgerUnavailable
from leasefs_cli.durations import Duration
from leasefs_cli.interrupts import stopping_as_exception
from leasefs_cli.printing import say, say_json, tell
from leasefs_cli.progress import Progress
from leasefs_cli.sizes import Size, in_words
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs.service.retention import Retention

LOOK_EVERY_S = 0.2


@teaching_command(
    "compact",
    examples=[
        ("leasefs ledger compact --keep-for 90d", "drop what is older than 90 days"),
        ("leasefs ledger compact --keep-events 1000000", "keep a million events, at least"),
        (
            "leasefs ledger compact --keep-for 90d --store /var/lib/leasefs --archive /srv/archive",
            "of a ledger that is stopped; what goes is archived before, and the file becomes as small as it can",
        ),
    ],
)
@click.option(
    "--keep-events", type=click.IntRange(0), metavar="N", help="Keep the newest N events."
)
@click.option(
    "--keep-for",
    "keep_s",
    type=Duration(0.0, 1e10),
    metavar="DURATION",
    help="Keep the events of so long.",
)
@click.option(
    "--keep-bytes", type=Size(), metavar="SIZE", help="Keep as much as takes about so much room."
)
@click.option(
    "--store",
    metavar="DIR",
    help="The store of a ledger that is stopped. Default: ask the one that runs.",
)
@click.option(
    "--archive",
    metavar="DIR",
    help="With --store: write what goes there before, as compressed lines of JSON. A ledger that runs archives where its "
    "setting ledger.archive says.",
)
@json_option
def command(
    keep_events: int | None,
    keep_s: float | None,
    keep_bytes: int | None,
    store: str | None,
    archive: str | None,
    as_json: bool,
) -> None:
    """Drop old events from the ledger's log, so that it does not grow for ever.

    A ledger does so by itself, by the settings ledger.keep_events (20 million), ledger.keep_s and ledger.keep_bytes. Leases,
    queue, intents and everything else that holds now stay as they are: only the history becomes shorter, and `leasefs log` says
    where it begins. It begins at a saved state that another one follows, so somewhat more than what is named may be kept.

    While a ledger runs it goes on serving; this waits until all is done. Ctrl-C stops the waiting, not the ledger.
    """
    if keep_events is None and keep_s is None and keep_bytes is None:
        raise click.UsageError("say what to keep: --keep-events, --keep-for or --keep-bytes")
    if archive and not store:
        raise click.UsageError(
            "--archive goes with --store; a ledger that runs has its setting ledger.archive"
        )
    if store:
        from leasefs.service.retention import Retention

        done = _stopped(
            store, Retention(keep_events, keep_s, keep_bytes, young_s=0.0), archive or ""
        )
    else:
        call = api_history.compact(keep_events=keep_events, keep_s=keep_s, keep_bytes=keep_bytes)
        done = _running(Link(ledger_url()[0]), call)
    if as_json:
        say_json(done)
    elif done["base"] == done["before"]:
        say(
            f"nothing to drop: the log begins after event {done['base']}, {in_words(done['size_bytes'])}"
        )
    else:
        say(
            f"dropped events {done['before'] + 1} to {done['base']}; the log takes {in_words(done['size_bytes'])}"
        )


def _running(link: Link, call: api.Call) -> dict[str, Any]:
    begun = link.send(call)
    before, target = begun["base"], begun["target"]
    with stopping_as_exception(), Progress("dropping events", target - before) as progress:
        while True:
            extent = link.send(api_history.extent())
            progress.at(extent["base"] - before)
            if extent["base"] >= target:
                return {
                    "before": before,
                    "base": extent["base"],
                    "size_bytes": extent["size_bytes"],
                }
            pause(LOOK_EVERY_S)


def _stopped(store: str, keep: Retention, archive: str) -> dict[str, Any]:
    from leasefs.service.compacting_offline import compact_file
    from leasefs.service.entries import UnknownEvent
    from leasefs.store.errors import StoreError, StoreLocked

    try:
        with Progress("dropping events") as progress:
            found = compact_file(store, keep, archive, progress.so_far)
    except StoreLocked as error:
        tell("leave --store out to have the ledger that runs do it")
        raise ClaimConflict(str(error), store=store) from error
    except (StoreError, UnknownEvent, OSError) as error:
        raise LedgerUnavailable(f"cannot compact {store}: {error}", store=store) from error
    return {"before": found.before, "base": found.base, "size_bytes": found.size_bytes}
