"""`leasefs claim`."""

from __future__ import annotations

import sys
from typing import Unpack

import click

from leasefs_cli.claim_options import WaitingCommand, claim_options
from leasefs_cli.claiming import (
    WishOptions,
    claimed,
    globs_of_lease,
    granted_words,
    understood,
    wish_of,
)
from leasefs_cli.interrupts import ignore_from_now_on
from leasefs_cli.place import ground_here
from leasefs_cli.printing import say_at_once, say_json, tell
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "claim",
    cls=WaitingCommand,
    examples=[
        (
            "leasefs claim 'packages/core/**'",
            "lease a directory; the lease id is all that is printed",
        ),
        (
            "id=$(leasefs claim src docs --ttl 10m --wait 5m)",
            "two directories at once, queueing for 5 minutes",
        ),
        ("leasefs claim 'app/[slug]/page.tsx'", "an existing file means itself, whatever its name"),
        ("leasefs claim --shared Cargo.lock", "keep it as it is while you rely on it"),
        ("leasefs claim '*.md' --wait --json", "wait without end; print all about the lease"),
        (
            "leasefs claim src --priority human",
            "a person needs it now: background loops stop, and go on afterwards",
        ),
        (
            "leasefs claim src --priority urgent --recall 2m",
            "give holders of lower priority two minutes to commit",
        ),
        (
            "leasefs claim --upgrade L12 --wait",
            "hold alone what was shared, when the others let go",
        ),
    ],
)
@click.argument("globs", metavar="[GLOB]...", nargs=-1)
@click.option(
    "--upgrade",
    metavar="LEASE",
    help="A shared lease of yours that this takes the place of once it is granted; its globs if you give none.",
)
@claim_options
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but failures.")
def command(
    globs: tuple[str, ...],
    upgrade: str | None,
    agent: str | None,
    as_json: bool,
    quiet: bool,
    **wish: Unpack[WishOptions],
) -> None:
    """Lease every path that the GLOBs match: all of them or none.

    A GLOB is a path from here, with `*`, `?` and `[...]` inside a name and `**` across directories. The
    name of something that exists means just that, a directory everything below it; anything else is a
    pattern. Quote it, or the shell replaces it by the files of the moment.

    Prints the lease's id alone. Then writes below it pass, and everybody else's fail. The lease is
    kept for as long as files under it are open for writing or are being written; idle for its TTL,
    it lapses and others may have it.

    What the last holder left there is told on stderr: a note, rescues, uncommitted paths.

    If somebody holds overlapping ground the claim is refused (3), naming them; with --wait it queues.
    Ctrl-C or the end of the wait withdraws it.

    A claim of higher priority may recall what is in its way (--recall): the holders are told, commit or lose
    nothing (their work is rescued), and are first to have the ground back. Equal priority never does.
    """
    if not globs and upgrade is None:
        raise click.UsageError("name the GLOBs to claim, or a lease to --upgrade")
    if upgrade is not None and wish["shared"]:
        raise click.UsageError("--upgrade makes an exclusive lease; leave --shared out")
    wanted = wish_of(globs, wish, upgrade=upgrade or "")
    ground = ground_here(agent, globs)
    meanings = understood(ground.roots, wanted)
    place = ground.enter()
    if upgrade is not None and not globs:
        meanings = globs_of_lease(place, upgrade)
    with claimed(place, wanted, meanings, quiet=quiet, as_json=as_json) as granted:
        answer = granted.lease
        ignore_from_now_on()  # what is told is held
        if as_json:
            say_json({**answer, "understood": [meaning.meaning for meaning in meanings]})
            return
        if not quiet and sys.stderr.isatty():
            tell(granted_words(answer))
        say_at_once(answer["lease"])
