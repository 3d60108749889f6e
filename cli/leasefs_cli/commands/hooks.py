"""`leasefs hooks`: the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs_cli.lazy_group import LazyGroup, Listed, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.teaching import Example


def _listed(name: str, summary: str) -> Listed:
    return Listed(f"leasefs_cli.commands.hooks_{name}:command", summary)


class HooksGroup(LazyGroup):
    """What can be done with the hooks of a repository."""

    sections: Sequence[Section] = (
        Section(
            "Commands",
            {
                "install": _listed("install", "Put them in; yours stay and run as before."),
                "uninstall": _listed("uninstall", "Take them out; yours are as they were."),
                "status": _listed("status", "How each of them stands."),
                "run": _listed("run", "What the hooks themselves call."),
            },
        ),
    )
    examples: Sequence[Example] = (
        ("leasefs hooks install", "for all working trees of this clone"),
        ("leasefs hooks status", "are they still there, and as they should be?"),
    )


@click.group("hooks", cls=HooksGroup, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Let git check commits against leases.

    pre-commit and commit-msg refuse a commit that holds paths outside your leases, naming who holds
    them. What a merge, cherry-pick, revert or rebase brings from history does not count. With
    `[hooks] trailer = true` in .leasefs.toml, commit-msg adds `Lease: ID`. pre-push tells what you
    left uncommitted and refuses nothing.

    A commit made with --no-verify skips this; a mount finds it when the branch moves, and
    `leasefs log` shows it.
    """
