"""Calling systemd's own tools for the `leasefs service` commands."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from leasefs.core.errors import LeasefsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.unit_files import Flavour

_TIMEOUT_S = 120.0
_SHOWN = ("Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "StatusText", "NRestarts")


class Failed(LeasefsError):
    """A tool of systemd did not do what was asked; the message has its words."""


def run(command: Sequence[str]) -> str:
    """Run a command and return what it printed. Raises Failed."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{command[0]} cannot be run: {error}") from error
    if done.returncode:
        why = " ".join(done.stderr.split()) or f"it ended with {done.returncode}"
        raise Failed(f"`{' '.join(command)}` failed: {why}")
    return done.stdout


def systemctl(flavour: Flavour, *arguments: str) -> list[str]:
    """The command line of systemctl for this flavour."""
    where = ["--user"] if flavour.user else []
    if flavour.root:
        where.append(f"--root={flavour.root}")
    return ["systemctl", *where, *arguments]


def units(flavour: Flavour) -> list[dict[str, Any]]:
    """How systemd sees our units that are loaded: name, whether active and enabled, what they say. Raises Failed."""
    said = run(systemctl(flavour, "show", "--all", f"--property={','.join(_SHOWN)}", "leasefs-*"))
    found = []
    for block in said.strip().split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("LoadState") == "loaded":
            found.append(
                {
                    "unit": fields["Id"],
                    "active": fields["ActiveState"],
                    "sub": fields["SubState"],
                    "enabled": fields.get("UnitFileState", ""),
                    "status": fields.get("StatusText", ""),
                    "restarts": int(fields.get("NRestarts") or 0),
                }
            )
    return sorted(found, key=lambda unit: unit["unit"])
