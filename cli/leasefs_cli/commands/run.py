"""`leasefs run`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

import click

from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs_cli.child import run_child
from leasefs_cli.claim_options import WaitingCommand, claim_options
from leasefs_cli.claiming import claimed, understood, wish_of
from leasefs_cli.keeping import Keeper
from leasefs_cli.own_claims import forget_empty_shell, own_leases
from leasefs_cli.place import acting_place, ground_here
from leasefs_cli.printing import tell
from leasefs_cli.release_checks import Gate
from leasefs_cli.signal_names import SignalName
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    import signal

    from leasefs.client import api
    from leasefs_cli.claiming import Claimed, WishOptions
    from leasefs_cli.place import Place


@teaching_command(
    "run",
    cls=WaitingCommand,
    context_settings={"allow_interspersed_args": False},
    own_codes=[
        ("any", "the command's own; 128+N if signal N ended it"),
        ("126", "the command cannot be executed"),
        ("127", "there is no such command"),
    ],
    examples=[
        ("leasefs run --claim 'docs/**' -- make docs", "claim, build, release"),
        (
            "leasefs run --claim src --claim Cargo.lock --wait 10m -- cargo update",
            "queue first if need be",
        ),
        ("leasefs run -- ./slow-generator", "keep what you hold already while it runs"),
        (
            "leasefs run --claim src --priority background --on-recall STOP -- ./improve-for-ever",
            "a background loop that stands still while somebody else needs the ground",
        ),
    ],
)
@click.option(
    "--claim",
    "globs",
    metavar="GLOB",
    multiple=True,
    help="Claim this first and release it afterwards; several make one claim.",
)
@click.option(
    "--on-recall",
    type=SignalName(),
    metavar="SIGNAL",
    help="Send the command this signal (TERM, USR1, ...) when a lease is recalled. After STOP or TSTP it gets CONT "
    "when the ground is back.",
)
@claim_options
@json_option
@click.argument("command_line", metavar="CMD [ARGS]...", nargs=-1, required=True)
def command(
    globs: tuple[str, ...],
    command_line: tuple[str, ...],
    on_recall: signal.Signals | None,
    agent: str | None,
    as_json: bool,
    **wish: Unpack[WishOptions],
) -> int:
    """Run a command under leases, kept in use for as long as it runs.

    With --claim the globs are claimed before and released after it, unless you claimed just these
    yourself or another run needs them too; without, all that you hold is kept. What the command changed and
    nobody committed keeps its lease from being released, and so does a check in .leasefs.toml that fails: that is
    told on stderr, and it stays yours.
    Signals are passed on, and the exit code is the command's.

    If a lease is lost meanwhile (revoked, or taken after a long sleep of the machine) this is told on
    stderr and the command runs on: what it writes there is refused by the mount; outside of a mount nothing
    keeps it from writing, so let --on-recall stop it.

    If a lease is recalled, that is told on stderr too: by whom, why, until when, and how to ask for more time. It is
    given up when no file is open for writing there and all is committed, at the deadline at the latest, and comes
    back by itself afterwards.
    """
    program = os.path.basename(command_line[0])
    if not globs:
        place = acting_place(agent)
        return _run(Keeper(place, _held(place), program, on_recall), command_line)
    wanted = wish_of(globs, wish)
    ground = ground_here(agent)
    meanings = understood(ground.roots, wanted)
    place = ground.enter()
    with claimed(place, wanted, meanings, quiet=False, as_json=as_json) as granted:
        keeper = Keeper(place, [granted.lease], program, on_recall)
        try:
            return _run(keeper, command_line)
        finally:
            by_now = {**granted.lease, "lease": keeper.latest(granted.lease["lease"])}
            _give_back(place, granted._replace(lease=by_now))


def _held(place: Place) -> list[api.Body]:
    held = own_leases(place)
    if not held:
        forget_empty_shell(place)
        raise InvalidRequest(
            "you hold no lease that could be kept; give --claim GLOB, or claim first"
        )
    return held


def _run(keeper: Keeper, command_line: tuple[str, ...]) -> int:
    try:
        return run_child(command_line, keeper.start)
    finally:
        keeper.stop()


def _give_back(place: Place, granted: Claimed) -> None:
    """Release. A failure is told, but the exit code stays the command's."""
    try:
        if granted.is_new:
            Gate(place).check(granted.lease["lease"], None)
        granted.give_back(place.link, in_mount=place.mount is not None)
        forget_empty_shell(place)
    except LeasefsError as error:
        tell(f"{granted.lease['lease']} was not released: {error.message}")
