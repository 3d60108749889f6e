"""`leasefs ledger verify`."""

from __future__ import annotations

from contextlib import closing

import click

from leasefs.core.errors import LedgerUnavailable
from leasefs_cli.printing import say, say_json
from leasefs_cli.store_place import store_of_ledger, told_as_failures
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "verify",
    examples=[
        ("leasefs ledger verify", "the ledger's own file, also while it is served"),
        ("leasefs ledger verify --store /srv/backup/ledger.db", "a backup"),
        ("leasefs ledger verify --archive /srv/archive", "what was dropped and kept there"),
    ],
)
@click.option(
    "--store",
    metavar="PATH",
    help="A backup or a store. Default: of the ledger that commands here speak to.",
)
@click.option("--archive", metavar="DIR", help="Check an archive of old events instead.")
@json_option
def command(store: str | None, archive: str | None, as_json: bool) -> None:
    """Check each event, each saved state, and that nothing is missing, by the sums that the ledger keeps.

    Reads all of it. Fails (7) if anything is wrong, and says what.
    """
    if store and archive:
        raise click.UsageError("check a store or an archive, one at a time")
    what = archive or store or store_of_ledger()
    with told_as_failures(f"check {what}"):
        said, problems = _archive(archive) if archive else _store(what)
    if as_json:
        say_json({"what": what, **said, "problems": problems})
    if problems:
        raise LedgerUnavailable(f"{what} is damaged: {'; '.join(problems[:20])}", problems=problems)
    if not as_json:
        say(
            f"{what}: {', '.join(f'{count} {name}' for name, count in said.items())}, all as they were written"
        )


def _store(place: str) -> tuple[dict[str, int], list[str]]:
    from leasefs.service.offline import file_of
    from leasefs.store.sqlite_reading import ReadOnlyStore

    with closing(ReadOnlyStore(file_of(place))) as store:
        found = store.verify()
    return {"events": found.events, "snapshots": found.snapshots}, list(found.problems)


def _archive(directory: str) -> tuple[dict[str, int], list[str]]:
    from leasefs.service.archive import Archive

    archive = Archive(directory)
    return {"segments": len(archive.segments())}, archive.verify()
