"""`leasefs config`: the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs_cli.lazy_group import LazyGroup, Listed, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.teaching import Example


def _listed(name: str, summary: str) -> Listed:
    return Listed(f"leasefs_cli.commands.config_{name}:command", summary)


class ConfigGroup(LazyGroup):
    """What can be asked about settings."""

    sections: Sequence[Section] = (
        Section(
            "Commands",
            {
                "show": _listed("show", "Settings, their values, and who says so."),
                "get": _listed("get", "The value of one setting, for a script."),
                "path": _listed("path", "The files that are looked at, and how each stands."),
            },
        ),
    )
    examples: Sequence[Example] = (
        ("leasefs config show", "what differs from the defaults, and where that is said"),
        ("leasefs config show --all", "every setting there is"),
        ("leasefs -c claim.ttl_s=10m config get claim.ttl_s", "a setting for one command alone"),
    )


@click.group("config", cls=ConfigGroup, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """What is configured, and where it is said.

    A setting is said, the former before the latter, by an option of a command; by -c NAME=VALUE before the
    command; by a variable of the environment (LEASEFS_ and its name, as in LEASEFS_CLAIM_TTL_S); by the
    repository's .leasefs.toml, if it is one that a repository may say; by ~/.config/leasefs/config.toml
    (XDG_CONFIG_HOME); by /etc/leasefs/config.toml.

    In a file claim.ttl_s is the key ttl_s of the table [claim]. A key that is not known, or a value of another
    kind, stops commands and is told with its line; this group and `leasefs doctor` go on and show it.
    """
