"""`leasefs agent`: the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs_cli.lazy_group import LazyGroup, Listed, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.teaching import Example


def _listed(name: str, summary: str) -> Listed:
    return Listed(f"leasefs_cli.commands.agent_{name}:command", summary)


class AgentGroup(LazyGroup):
    """What can be done with identities."""

    sections: Sequence[Section] = (
        Section(
            "Commands",
            {
                "add": _listed("add", "Issue an identity, and print its token once."),
                "set": _listed("set", "Change what it may do, or whose it is."),
                "rotate": _listed("rotate", "Give it another token."),
                "revoke": _listed("revoke", "End it, and all that its sessions hold."),
                "list": _listed("list", "Who there is, with what role, used when."),
                "whoami": _listed("whoami", "Whom the ledger takes you for."),
            },
        ),
    )
    examples: Sequence[Example] = (
        ("leasefs agent add ci-7 --token-file ci-7.token", "an agent on another machine"),
        ("leasefs agent add bo --user bo --role observer", "a user of this one, who may look"),
        ("leasefs agent list", "who there is"),
    )


@click.group("agent", cls=AgentGroup, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Issue, rotate and revoke identities: by whom the ledger may be used, and for what.

    A ledger of your own needs none: you and root are its operators. Another user of its machine is known by an identity
    that is bound to them (--user), and whoever comes over TCP by a token. An observer reads; an agent also claims, in
    sessions under its own name; an operator also decides for others: ends leases, freezes, limits, issues identities.

    The token is printed once. The ledger keeps its hash only, so a lost one is replaced: `leasefs agent rotate`.
    """
