"""`leasefs service`: the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs_cli.lazy_group import LazyGroup, Listed, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.teaching import Example


def _listed(name: str, summary: str) -> Listed:
    return Listed(f"leasefs_cli.commands.service_{name}:command", summary)


class ServiceGroup(LazyGroup):
    """What can be done with the units."""

    sections: Sequence[Section] = (
        Section(
            "Commands",
            {
                "install": _listed("install", "Write the units, enable and start the ledger."),
                "uninstall": _listed("uninstall", "Stop all of it and take the units away."),
                "status": _listed("status", "How each file and each unit stands."),
            },
        ),
    )
    examples: Sequence[Example] = (
        ("leasefs service install", "as root: a ledger for this machine"),
        ("leasefs service install --user", "one for yourself, started when it is needed"),
        ("leasefs service status", "what runs, and what it says of itself"),
    )


@click.group("service", cls=ServiceGroup, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Keep ledger and mounts running under systemd.

    The ledger is started by its socket. Each mount is an instance of leasefs-mount@.service, configured by
    a file of variables: /etc/leasefs/mounts/NAME.env, or ~/.config/leasefs/mounts/NAME.env. It restarts
    after a crash, mounting over the dead mount, and stops in order.
    """
