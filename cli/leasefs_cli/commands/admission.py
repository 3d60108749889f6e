"""`leasefs admission`: the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs_cli.lazy_group import LazyGroup, Listed, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.teaching import Example


def _listed(name: str, summary: str) -> Listed:
    return Listed(f"leasefs_cli.commands.admission_{name}:command", summary)


class AdmissionGroup(LazyGroup):
    """What can be asked of a territory's limits, and done to them."""

    sections: Sequence[Section] = (
        Section(
            "Commands",
            {
                "show": _listed("show", "The limits, and how much of them is used."),
                "set": _listed("set", "Change some of them."),
                "clear": _listed("clear", "Lift them all."),
            },
        ),
    )
    examples: Sequence[Example] = (
        ("leasefs admission show", "why does everything wait?"),
        (
            "leasefs admission set --max-unlanded 60 --reason 'CI is red'",
            "from a job of CI, when it cannot keep up",
        ),
    )


@click.group("admission", cls=AdmissionGroup, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Limit how much work a territory takes on at once.

    A claim above a limit on live or unlanded work waits its turn, and the queue says that it waits for admission and
    not for a holder. A claim above a cap of one agent (number of leases, share of the files) is refused, and a lease
    that is held longer than the cap is recalled. CI may set all this over HTTP too: PUT /v1/admission.
    """
