"""`leasefs rescue`: the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs_cli.lazy_group import LazyGroup, Listed, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.teaching import Example


def _listed(name: str, summary: str) -> Listed:
    return Listed(f"leasefs_cli.commands.rescue_{name}:command", summary)


class RescueGroup(LazyGroup):
    """What can be done with work that was kept."""

    sections: Sequence[Section] = (
        Section(
            "Commands",
            {
                "list": _listed("list", "What was kept, whose it is, and where it lies."),
                "show": _listed("show", "What one holds, or the bytes of one path."),
                "apply": _listed("apply", "Write it back, byte for byte."),
                "drop": _listed("drop", "Forget it."),
            },
        ),
    )
    examples: Sequence[Example] = (
        ("leasefs rescue list", "my lease was lost: where is my work?"),
        ("leasefs rescue apply L17", "write it back, under the leases that it needs"),
    )


@click.group("rescue", cls=RescueGroup, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Find uncommitted work that was kept when its lease ended, and put it back.

    When a lease expires, is revoked, or is released with --rescue, what was not committed under it is
    kept as a commit below refs/leasefs/rescue/ in the tree's own repository: contents, modes, links,
    deletions, untracked files. Index, branches and working tree are not touched by that. A rescue is
    named after its lease: L17, and L17-2 if that one was kept twice.
    """
