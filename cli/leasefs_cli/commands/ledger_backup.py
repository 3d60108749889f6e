"""`leasefs ledger backup`."""

from __future__ import annotations

import os

import click

from leasefs_cli.printing import say, say_json
from leasefs_cli.progress import Progress
from leasefs_cli.sizes import in_words
from leasefs_cli.store_place import store_of_ledger, told_as_failures
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "backup",
    examples=[
        ("leasefs ledger backup ~/ledger-$(date +%F).db", "while it runs, or when it is stopped"),
        (
            "leasefs ledger backup --store /var/lib/leasefs/ledger /srv/backup/ledger.db",
            "of a service, as root or as its account",
        ),
        ("leasefs log --store ledger.db --at now", "what a backup has"),
    ],
)
@click.argument("file", type=click.Path())
@click.option(
    "--store",
    metavar="DIR",
    help="The ledger's store. Default: of the ledger that commands here speak to.",
)
@json_option
def command(file: str, store: str | None, as_json: bool) -> None:
    """Copy the ledger's log to FILE, as of one moment, while it is served.

    Must run on the ledger's host, as root or as its user. FILE must not exist; it is there once it is whole and
    checked from its first event to its last, and only its owner may read it: hashes of secrets are in it. It needs nothing beside
    it, and can be read anywhere (`leasefs log --store FILE`). `leasefs ledger restore` brings it back.
    """
    from leasefs.service.offline import file_of
    from leasefs.store.sqlite_backup import back_up

    source = file_of(store or store_of_ledger())
    with told_as_failures(f"back up {source}"), Progress("copying") as progress:
        copied = back_up(source, os.path.abspath(file), progress.so_far)
    if as_json:
        told = {"base": copied.base, "head": copied.head, "size_bytes": copied.size_bytes}
        say_json({"file": file, "source": source, **told})
    else:
        say(
            f"{file}: events {copied.base + 1} to {copied.head} of {source}, {in_words(copied.size_bytes)}"
        )
