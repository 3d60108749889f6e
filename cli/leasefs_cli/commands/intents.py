"""`leasefs intents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs.client import api
from leasefs.client.clock import BoottimeClock
from leasefs_cli.durations import Duration
from leasefs_cli.intent_rows import say_intents
from leasefs_cli.moments import at_option
from leasefs_cli.place import view
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import everywhere_option, json_option, teaching_command

if TYPE_CHECKING:
    from leasefs_cli.moments import Point

_LONGEST_S = 3650 * 86400.0


@teaching_command(
    "intents",
    examples=[
        ("leasefs intents", "who has what uncommitted or unpushed in this repository"),
        ("leasefs intents --older 24h --all", "what was forgotten, anywhere"),
        ("leasefs intents --mine --state dirty", "what I have still to commit"),
        ("leasefs intents --lease L17 --json", "for a program"),
        ("leasefs intents --at 4711", "what was uncommitted after that event"),
    ],
)
@everywhere_option
@click.option("--mine", is_flag=True, help="Only those of the agent of the mount here.")
@click.option("--agent", metavar="NAME", help="Only those of this agent.")
@click.option("--lease", metavar="LEASE", help="Only what was changed under this lease.")
@click.option(
    "--state",
    type=click.Choice(["dirty", "committed"]),
    help="Only what is not committed, or only what is committed and has not landed.",
)
@click.option(
    "--older",
    "older_s",
    type=Duration(0.0, _LONGEST_S),
    default=0.0,
    metavar="DURATION",
    help="Only what has been so for at least this long.",
)
@at_option
@json_option
def command(
    everywhere: bool,
    mine: bool,
    agent: str | None,
    lease: str | None,
    state: str | None,
    older_s: float,
    at: Point | None,
    as_json: bool,
) -> None:
    """List changed paths until they have landed: whose, since when, and in which tree. Oldest first.

    A path is listed from just before its first change until it is committed and on the upstream, or is again
    as HEAD has it; also after its lease or its agent's mount has ended. `dirty`: not committed. `committed`:
    not on the upstream yet. NOTE says whether its lease is over, and whether it was changed after that (fenced).
    """
    if mine and agent is not None:
        raise click.UsageError("--mine names the agent; leave --agent out")
    seen = view(everywhere=everywhere)
    if mine and seen.mount is None:
        raise click.UsageError("--mine needs a mount here; elsewhere give --agent NAME")
    whose = seen.mount.agent if mine and seen.mount else agent
    wanted = {"agent": whose, "lease": lease, "state": state}
    if at is not None:
        from leasefs_cli.past import past

        said = past(seen, at, ("intents",), **wanted)
        now_s = said["wall_s"]
    else:
        said = seen.link.send(api.intents(seen.territory, **wanted))
        now_s = BoottimeClock().wall_s()
    found = [one for one in said["intents"] if now_s - one["first_wall_s"] >= older_s]
    unseen = said["total"] - len(said["intents"])
    if as_json:
        say_json({"intents": found, "unseen": unseen})
        return
    say_intents(found, now_s)
    if unseen:
        tell(f"{unseen} more, newer than these, are not shown: narrow it with --agent or --lease")
