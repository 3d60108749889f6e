"""`leasefs ledger`: the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs_cli.lazy_group import LazyGroup, Listed, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.teaching import Example


class LedgerGroup(LazyGroup):
    """What can be done with the ledger itself."""

    sections: Sequence[Section] = (
        Section(
            "Commands",
            {
                "serve": Listed(
                    "leasefs_cli.commands.ledger_serve:command", "Serve one in the foreground."
                ),
                "status": Listed(
                    "leasefs_cli.commands.ledger_status:command",
                    "What it is and how much it holds.",
                ),
                "stop": Listed(
                    "leasefs_cli.commands.ledger_stop:command", "Stop the one of this user."
                ),
            },
        ),
        Section(
            "Its log",
            {
                "backup": Listed(
                    "leasefs_cli.commands.ledger_backup:command", "Copy it while it is served."
                ),
                "restore": Listed(
                    "leasefs_cli.commands.ledger_restore:command", "Bring a backup back."
                ),
                "reopen": Listed(
                    "leasefs_cli.commands.ledger_reopen:command",
                    "After a restore, grant claims before the time is over.",
                ),
                "verify": Listed(
                    "leasefs_cli.commands.ledger_verify:command", "Check every event of it."
                ),
                "compact": Listed(
                    "leasefs_cli.commands.ledger_compact:command", "Drop old events."
                ),
            },
        ),
    )
    examples: Sequence[Example] = (
        ("leasefs ledger status", "is one running, and what does it hold?"),
        ("leasefs ledger serve", "keep one running, under a supervisor"),
        ("leasefs ledger backup ledger.db", "a copy of all that it knows, while it runs"),
    )


@click.group("ledger", cls=LedgerGroup, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Serve, look at or stop the ledger, which knows who holds what.

    Nobody has to: the first `leasefs` command starts one for this user, and it ends by itself when
    nothing is held any more. LEASEFS_LEDGER names another one.
    """
