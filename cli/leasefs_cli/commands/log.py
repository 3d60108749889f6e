"""`leasefs log`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from leasefs.client import api
from leasefs.client.clock import BoottimeClock, pause
from leasefs.core.errors import LedgerUnavailable
from leasefs_cli.event_lines import EVENT_TYPES, event_line
from leasefs_cli.interrupts import stopping_as_exception
from leasefs_cli.place import View, view
from leasefs_cli.printing import say, say_at_once, say_json
from leasefs_cli.teaching import everywhere_option, json_option, teaching_command

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = 1000
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
    ],
)
@click.option(
    "-n",
    "count",
    type=click.IntRange(0, 100_000),
    metavar="N",
    help=f"The last N events. Default {DEFAULT_COUNT}; with --after, the first N after it.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with what happens from now, until Ctrl-C."
)
@click.option(
    "--after", type=click.IntRange(0), metavar="SEQ", help="Only events after this number."
)
@click.option(
    "--type",
    "types",
    type=click.Choice(EVENT_TYPES),
    metavar="TYPE",
    multiple=True,
    help="Only events of this type; may be given several times. " + ", ".join(EVENT_TYPES) + ".",
)
@everywhere_option
@json_option
def command(
    count: int | None,
    follow: bool,
    after: int | None,
    types: tuple[str, ...],
    everywhere: bool,
    as_json: bool,
) -> None:
    """Show what happened: every grant, wait, renewal, refusal and end of a lease, oldest first.

    Each line: sequence number, time, type, agent, what. The number of a `granted` event is the lease's
    fencing token. With --json one object per line, the same with and without --follow.
    """
    seen = view(everywhere=everywhere)
    if after is None:
        wanted = DEFAULT_COUNT if count is None else count
        events, head = last_events(seen, wanted, types)
    else:
        events, head = events_after(seen, after, count, types)
    for recorded in events:
        _show(recorded, as_json=as_json)
    if follow:
        with stopping_as_exception():
            for recorded in _followed(seen, head, types):
                _show(recorded, as_json=as_json, at_once=True)


def _show(recorded: dict[str, Any], *, as_json: bool, at_once: bool = False) -> None:
    if as_json:
        say_json(recorded)
    elif at_once:
        say_at_once(event_line(recorded))
    else:
        say(event_line(recorded))


def events_after(
    seen: View, after: int, count: int | None, types: tuple[str, ...]
) -> tuple[list[api.Body], int]:
    """The first `count` events after a sequence number, or all; and where to go on from."""
    found: list[api.Body] = []
    while count is None or len(found) < count:
        limit = PAGE if count is None else min(PAGE, count - len(found))
        page = seen.link.send(
            api.events(after=after, limit=limit, territory=seen.territory, types=types)
        )
        found += page["events"]
        after = page["next"]
        if after >= page["head"]:
            break
    return found, after


def last_events(seen: View, count: int, types: tuple[str, ...]) -> tuple[list[api.Body], int]:
    """The last `count` events that match, and where to go on from.

    The log is read forwards only, so the start is guessed and moved back, twice as far each time,
    until enough match.
    """
    head = seen.link.send(api.events(limit=1))["head"]
    reach = max(count, 1)
    while True:
        start = max(0, head - reach)
        found, end = events_after(seen, start, None, types)
        if len(found) >= count or start == 0:
            return found[max(0, len(found) - count) :], end
        reach *= 2


def _followed(seen: View, after: int, types: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Without end, across restarts of the ledger; LedgerUnavailable if it stays away too long."""
    clock = BoottimeClock()
    lost_at_s = clock.now_s()
    while True:
        began_at_s = clock.now_s()
        away: LedgerUnavailable | None = None
        try:
            call = api.follow(after=after, territory=seen.territory, types=types)
            for event in seen.link.stream(call):
                if event.type == "error":  # a mount whose ledger is away
                    away = LedgerUnavailable(event.data["error"]["message"])
                    break
                yield event.data
                after = event.seq
        except LedgerUnavailable as error:
            away = error
        if clock.now_s() - began_at_s > STEADY_S:
            lost_at_s = clock.now_s()  # it was there until now
        elif away is not None and clock.now_s() - lost_at_s > RECONNECT_WITHIN_S:
            raise away
        pause(RECONNECT_EVERY_S)
