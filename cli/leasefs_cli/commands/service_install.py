"""`leasefs service install`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs_cli.printing import say, say_json, tell
from leasefs_cli.service_options import files_told, flavour_of, flavour_options
from leasefs_cli.systemctl import Failed, run, systemctl
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.unit_files import LEDGER, TARGET, own_command, write

if TYPE_CHECKING:
    from leasefs_cli.unit_files import Flavour


@teaching_command(
    "install",
    examples=[
        ("leasefs service install", "as root: the machine's units"),
        ("leasefs service install --user", "your own; `loginctl enable-linger` keeps them running"),
        ("leasefs service install --root /mnt/image", "into an image, for its next boot"),
    ],
)
@flavour_options
@json_option
def command(user: bool, root: str | None, program: str | None, as_json: bool) -> None:
    """Write the units and enable them; start the ledger's socket and the mounts that are enabled.

    Doing it twice does it once; after an upgrade it brings the units up to date. Your own changes belong
    into drop-ins (systemctl edit), which stay.
    """
    flavour = flavour_of(user=user, root=root)
    files = flavour.files(own_command(program, flavour))
    with files_told():
        done = {file.path: write(file) for file in files}
        os.makedirs(flavour.mounts_dir, mode=0o700 if user else 0o755, exist_ok=True)
    ran = [*_commands(flavour)]
    _carry_out(ran, user=user)
    if as_json:
        say_json(
            {
                "files": [{"path": path, "done": what} for path, what in done.items()],
                "ran": ran,
                "mounts": flavour.mounts_dir,
            }
        )
        return
    for path, what in done.items():
        say(f"{what:9}  {path}")
    for line in ran:
        say(f"ran        {' '.join(line)}")
    tell(
        f"for a mount write {flavour.mounts_dir}/NAME.env with LEASEFS_SOURCE=/path, then: "
        f"{' '.join(systemctl(flavour, 'enable', '--now', 'leasefs-mount@NAME'))}"
    )


def _carry_out(lines: list[list[str]], *, user: bool) -> None:
    """Raises Failed, which says what is done and what is not."""
    try:
        for line in lines:
            run(line)
    except Failed as error:
        whose = "runs for you (log in anew, or `loginctl enable-linger`)" if user else "runs"
        raise Failed(
            f"{error.message}. The units are written, and not all of them are enabled or started: do the same again where "
            f"systemd {whose}"
        ) from error


def _commands(flavour: Flavour) -> list[list[str]]:
    if flavour.root and flavour.user:
        return []  # systemctl has no way to enable a user's units elsewhere
    # A user's ledger starts with its first connection and goes when idle; the machine's watches deadlines always.
    wanted = [LEDGER[0], TARGET] if flavour.user else [*LEDGER, TARGET]
    if flavour.root:
        return [systemctl(flavour, "enable", *wanted)]
    before = (
        []
        if flavour.user
        else [
            ["systemd-sysusers", "/etc/sysusers.d/leasefs.conf"],
            ["systemd-tmpfiles", "--create", "/etc/tmpfiles.d/leasefs.conf"],
        ]
    )
    return [
        *before,
        systemctl(flavour, "daemon-reload"),
        systemctl(flavour, "enable", *wanted),
        systemctl(flavour, "start", LEDGER[0], TARGET),
    ]
