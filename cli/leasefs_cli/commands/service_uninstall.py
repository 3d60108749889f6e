"""`leasefs service uninstall`."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from leasefs_cli.printing import say, say_json, tell
from leasefs_cli.service_options import files_told, flavour_of, flavour_options
from leasefs_cli.systemctl import run, systemctl, units
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.unit_files import LEDGER, TARGET

if TYPE_CHECKING:
    from leasefs_cli.unit_files import Flavour


@teaching_command(
    "uninstall",
    examples=[
        ("leasefs service uninstall", "as root: mounts end in order, then the ledger"),
        ("leasefs service uninstall --user", "your own"),
    ],
)
@flavour_options
@json_option
def command(user: bool, root: str | None, program: str | None, as_json: bool) -> None:
    """Stop the mounts and the ledger, and take the units away.

    The ledger's log, journals, rescues, the account `leasefs` and the files of your mounts stay: delete
    them yourself if nobody needs them any more.
    """
    flavour = flavour_of(user=user, root=root)
    there = [
        path for path, *_ in flavour.files(program or "/usr/bin/leasefs") if os.path.exists(path)
    ]
    ran = _stopping(flavour) if there else []
    for line in ran:
        run(line)
    for path in there:
        with files_told(), suppress(FileNotFoundError):
            os.unlink(path)
    if there and not flavour.root:
        ran.append(systemctl(flavour, "daemon-reload"))
        run(ran[-1])
    if as_json:
        say_json({"removed": there, "ran": ran})
        return
    for line in ran:
        say(f"ran      {' '.join(line)}")
    for path in there:
        say(f"removed  {path}")
    if not there:
        tell("there was nothing to take away")


def _stopping(flavour: Flavour) -> list[list[str]]:
    if flavour.root:
        return [] if flavour.user else [systemctl(flavour, "disable", *LEDGER, TARGET)]
    mounts = [unit["unit"] for unit in units(flavour) if unit["unit"].startswith("leasefs-mount@")]
    # The mounts first: their sessions end well only while the ledger is there.
    first = [systemctl(flavour, "disable", "--now", *mounts)] if mounts else []
    return [*first, systemctl(flavour, "disable", "--now", TARGET, *LEDGER)]
