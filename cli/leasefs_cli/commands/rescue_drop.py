"""`leasefs rescue drop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs.client import api
from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs.vcs.errors import NoSuchRescue
from leasefs.vcs.rescue import drop
from leasefs_cli.own_claims import forget_empty_shell
from leasefs_cli.place import acting_place
from leasefs_cli.printing import say_json, tell
from leasefs_cli.rescue_place import rescue_place, where
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs_cli.rescue_place import RescuePlace


@teaching_command(
    "drop",
    examples=[
        ("leasefs rescue drop L17", "it was put back and committed"),
        ("leasefs rescue drop L9 --forget", "its clone is gone; take it off the ledger's list"),
    ],
)
@click.argument("rescues", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--forget",
    is_flag=True,
    help="Take it off the ledger's list although it is not in this repository.",
)
@click.option("--agent", metavar="NAME", help="Who you are outside a mount.")
@json_option
def command(rescues: tuple[str, ...], forget: bool, agent: str | None, as_json: bool) -> None:
    """Forget rescues: their refs in this repository, and the ledger's record. Git removes the contents later.

    Outside a mount and without --agent, the ledger is not told, and goes on listing them.
    """
    done = []
    with rescue_place() as place:
        for rescue in rescues:
            here = _drop_here(place, rescue, forget=forget)
            try:
                in_ledger = _drop_there(rescue, agent)
            except LeasefsError as error:
                if not here:
                    raise
                # The work itself is dropped, which is what was asked for.
                tell(f"the ledger still lists {rescue}: {error.message}")
                in_ledger = False
            done.append({"id": rescue, "here": here, "in_ledger": in_ledger})
    if as_json:
        say_json({"dropped": done})


def _drop_here(place: RescuePlace, rescue: str, *, forget: bool) -> bool:
    try:
        drop(place.require(rescue), rescue)
    except NoSuchRescue as error:
        known = {other["id"]: other for other in place.known() or ()}
        if rescue not in known:
            raise InvalidRequest(str(error), rescue=rescue) from error
        if not forget:
            raise InvalidRequest(
                f"rescue {rescue} is not in this repository but in that of {where(known[rescue])}; drop it there, "
                "or give --forget if that is gone",
                rescue=rescue,
            ) from error
        return False
    return True


def _drop_there(rescue: str, agent: str | None) -> bool:
    place = acting_place(agent)
    try:
        return bool(place.link.send(api.drop_rescue(rescue))["dropped"])
    finally:
        forget_empty_shell(place)
