"""`leasefs log`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from leasefs.client import api
from leasefs.client.clock import BoottimeClock, pause
from leasefs.core.errors import InvalidRequest, LedgerUnavailable
from leasefs_cli.event_lines import EVENT_TYPES, event_line
from leasefs_cli.interrupts import stopping_as_exception
from leasefs_cli.log_reading import Wanted, events_after, is_wanted, last_events
from leasefs_cli.moments import HELP, Moment, Point
from leasefs_cli.place import View, view
from leasefs_cli.printing import say, say_at_once, say_json, tell
from leasefs_cli.teaching import everywhere_option, json_option, teaching_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs_cli.log_filter import LogFilter

DEFAULT_COUNT = 20
RECONNECT_EVERY_S = 0.5
RECONNECT_WITHIN_S = 60.0
# A stream that lasted this long was a connection, not an attempt.
STEADY_S = 5.0


@teaching_command(
    "log",
    examples=[
        ("leasefs log", "the last 20 events of this repository"),
        ("leasefs log -n 100 --type writes-refused", "what mounts did not let through"),
        ("leasefs log --follow --json | jq .", "a stream for a program, one object per line"),
        ("leasefs log --after 4711", "everything since that sequence number"),
        ("leasefs log --since 2h --path src/parse.py", "who held it, waited for it, or changed it"),
        ("leasefs log --at 4711", "who held what then, who waited, and what was uncommitted"),
        ("leasefs log --store backup.db --at now", "what a backup has, without any ledger running"),
    ],
)
@click.option(
    "-n",
    "count",
    type=click.IntRange(0, 100_000),
    metavar="N",
    help=f"The last N events. Default {DEFAULT_COUNT}; with --after or --since, the first N after it, by default all.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with what happens from now, until Ctrl-C."
)
@click.option(
    "--after", type=click.IntRange(0), metavar="SEQ", help="Only events after this number."
)
@click.option("--since", type=Moment(), metavar="MOMENT", help=f"Only events from then on: {HELP}.")
@click.option("--until", type=Moment(), metavar="MOMENT", help="Only events up to then, likewise.")
@click.option(
    "--type",
    "types",
    type=click.Choice(EVENT_TYPES),
    metavar="TYPE",
    multiple=True,
    help="Only events of this type; may be given several times. " + ", ".join(EVENT_TYPES) + ".",
)
@click.option("--agent", metavar="NAME", help="Only events by or about this agent.")
@click.option(
    "--path",
    metavar="PATH",
    help="Only events about this path, what a directory holds, or what a glob matches.",
)
@click.option(
    "--at",
    type=Moment(),
    metavar="MOMENT",
    help="No events, but what held then: leases, queue and intents, replayed from the log.",
)
@click.option(
    "--store",
    metavar="PATH",
    help="Read this backup, or the store of a ledger that is stopped, and ask no ledger.",
)
@everywhere_option
@json_option
def command(
    count: int | None,
    follow: bool,
    after: int | None,
    since: Point | None,
    until: Point | None,
    types: tuple[str, ...],
    agent: str | None,
    path: str | None,
    at: Point | None,
    store: str | None,
    everywhere: bool,
    as_json: bool,
) -> None:
    """Show what happened: every grant, wait, renewal, refusal and end of a lease, oldest first.

    Each line: sequence number, time, type, agent, what. The number of a `granted` event is the lease's
    fencing token. With --json one object per line, the same with and without --follow.

    Old events may have been dropped (`leasefs ledger compact`): then it is said where the log begins.
    """
    if follow and (until or at or store):
        raise click.UsageError(
            "--follow goes on with what happens; leave --until, --at and --store out"
        )
    if at and (after is not None or since or until or types or agent or path or count is not None):
        raise click.UsageError(
            "--at shows what held then, and no events; leave the other options out"
        )
    if after is not None and since:
        raise click.UsageError("--after and --since both say where to begin; give one of them")
    seen = _view(store, everywhere=everywhere)
    if at:
        _show_past(seen, at, as_json=as_json)
        return
    upto = until.seq_in(seen.link) if until else None
    start = since.just_before(seen.link) if since else after
    _show_events(seen, start, count, _wanted(seen, types, agent, path, upto), follow, as_json)


def _view(store: str | None, *, everywhere: bool) -> View:
    if store is None:
        return view(everywhere=everywhere)
    from leasefs_cli.store_link import store_view

    return store_view(store, everywhere=everywhere)


def _show_past(seen: View, at: Point, *, as_json: bool) -> None:
    from leasefs_cli.past import past, say_past

    found = past(seen, at)
    if as_json:
        say_json(found)
    else:
        say_past(found)


def _wanted(
    seen: View, types: tuple[str, ...], agent: str | None, path: str | None, upto: int | None
) -> Wanted:
    if path is None:
        return Wanted(types, agent, None, upto)
    from leasefs.client.understand import understand
    from leasefs.core.globs import parse_glob

    if seen.roots is None:
        raise InvalidRequest(f"{os.getcwd()} is in no repository, so --path means nothing here")
    about = parse_glob(understand(path, seen.roots, os.getcwd()).glob)
    return Wanted(types, agent, about, upto)


def _show_events(
    seen: View, start: int | None, count: int | None, wanted: Wanted, follow: bool, as_json: bool
) -> None:
    if start is None:
        found = last_events(seen, DEFAULT_COUNT if count is None else count, wanted)
    else:
        found = events_after(seen, start, count, wanted)
        if start < found.base:
            tell(f"events up to {found.base} were dropped; what is left begins after that")
    for recorded in found.events:
        _show(recorded, as_json=as_json)
    if not found.events and not follow and not as_json:
        more = (
            "; --all has those of other repositories, and of the ledger itself"
            if seen.territory
            else ""
        )
        tell(f"no such events{more}")
    if follow:
        with stopping_as_exception():
            for recorded in _followed(seen, found.end, wanted, found.filter):
                _show(recorded, as_json=as_json, at_once=True)


def _show(recorded: dict[str, Any], *, as_json: bool, at_once: bool = False) -> None:
    if as_json:
        say_json(recorded)
    elif at_once:
        say_at_once(event_line(recorded))
    else:
        say(event_line(recorded))


def _followed(
    seen: View, after: int, wanted: Wanted, filter_: LogFilter | None
) -> Iterator[dict[str, Any]]:
    """Without end, across restarts of the ledger; LedgerUnavailable if it stays away too long."""
    clock = BoottimeClock()
    lost_at_s = clock.now_s()
    while True:
        began_at_s = clock.now_s()
        away: LedgerUnavailable | None = None
        try:
            types = () if wanted.narrow else wanted.types
            call = api.follow(after=after, territory=seen.territory, types=types)
            for event in seen.link.stream(call):
                if event.type == "error":  # a mount whose ledger is away
                    away = LedgerUnavailable(event.data["error"]["message"])
                    break
                if is_wanted(event.data, wanted, filter_):
                    yield event.data
                after = event.seq
        except LedgerUnavailable as error:
            away = error
        if clock.now_s() - began_at_s > STEADY_S:
            lost_at_s = clock.now_s()  # it was there until now
        elif away is not None and clock.now_s() - lost_at_s > RECONNECT_WITHIN_S:
            raise away
        pause(RECONNECT_EVERY_S)
