"""The unit files of leasefs: where they come from, where they go, and how each of them stands.

They name `/usr/bin/leasefs`; what is written names the command that is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHIPPED_COMMAND = "/usr/bin/leasefs"
_SHIPPED_STATE_HOME = "%h/.local/state"
# What systemd would take apart or expand in a command line (systemd.service(5)).
_PLAIN = re.compile(r"/[A-Za-z0-9/._+-]+")
# A hardened service sees nothing in these (ProtectHome=, PrivateTmp= of the ledger's unit).
_HIDDEN = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - compared, not used

LEDGER = ("leasefs-ledger.socket", "leasefs-ledger.service")
TARGET = "leasefs-mounts.target"
MOUNT = "leasefs-mount@.service"


class UnitFile(NamedTuple):
    """A file as it is to be: its path and what is in it."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Flavour:
    """The system's units, or one user's; below `root` ("" for this machine)."""

    user: bool
    root: str = ""

    @property
    def units_dir(self) -> str:
        """Where systemd looks for units that an administrator, or the user, put there."""
        return self._at(f"{_config_home()}/systemd/user" if self.user else "/etc/systemd/system")

    @property
    def mounts_dir(self) -> str:
        """Where each mount instance has its file of variables."""
        return self._at(f"{_config_home()}/leasefs/mounts" if self.user else "/etc/leasefs/mounts")

    def _at(self, path: str) -> str:
        return self.root.rstrip("/") + path if self.root else path

    def files(self, command: str) -> list[UnitFile]:
        """All files of this flavour, for the `leasefs` at `command`."""
        names = [*LEDGER, TARGET, MOUNT]
        folder = "user/" if self.user else ""
        found = [
            UnitFile(os.path.join(self.units_dir, name), self._fitted(folder + name, command))
            for name in names
        ]
        if not self.user:
            for kind in ("sysusers", "tmpfiles"):
                path = self._at(f"/etc/{kind}.d/leasefs.conf")
                found.append(UnitFile(path, self._fitted(f"leasefs.{kind}", command)))
        return found

    def _fitted(self, name: str, command: str) -> str:
        text = _shipped(name).replace(_SHIPPED_COMMAND, command)
        state_home = os.environ.get("XDG_STATE_HOME", "")
        if self.user and os.path.isabs(state_home):
            # Where this user's commands look for the ledger.
            text = text.replace(_SHIPPED_STATE_HOME, state_home.replace("%", "%%"))
        return text

    def states(self, command: str) -> Iterator[tuple[UnitFile, str]]:
        """Each file, and whether it is `installed`, `changed` (by hand, or of another version) or `missing`."""
        for file in self.files(command):
            yield file, _state(file)


def _config_home() -> str:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return home if os.path.isabs(home) else os.path.join(os.path.expanduser("~"), ".config")


def _shipped(name: str) -> str:
    here = os.path.dirname(os.path.abspath(__file__))
    # In a wheel they lie beside this module, in the repository at its top.
    for folder in (os.path.join(here, "systemd"), os.path.join(here, "../../systemd")):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise FileNotFoundError(f"{name} is not part of this installation")


def _state(file: UnitFile) -> str:
    try:
        with open(file.path, encoding="utf-8", errors="replace") as found:
            return "installed" if found.read() == file.content else "changed"
    except FileNotFoundError:
        return "missing"


def write(file: UnitFile) -> str:
    """See that the file is as it is to be; `written`, `replaced` or `unchanged`.

    Raises:
        OSError: it cannot be written.
    """
    before = _state(file)
    if before == "installed":
        return "unchanged"
    os.makedirs(os.path.dirname(file.path), mode=0o755, exist_ok=True)
    draft = f"{file.path}.new"
    with open(draft, "w", encoding="utf-8") as out:
        out.write(file.content)
    os.chmod(draft, 0o644)
    os.replace(draft, file.path)
    return "written" if before == "missing" else "replaced"


def own_command(given: str | None, flavour: Flavour) -> str:
    """The `leasefs` that units are to start: the one given, else the one that runs.

    Raises:
        InvalidRequest: a unit could not name it, or the ledger's hardened unit could not see it.
    """
    found = given or _running() or ""
    command = os.path.abspath(found) if found else ""
    if not _PLAIN.fullmatch(command):
        raise InvalidRequest(
            f"{command or 'leasefs'} cannot be named in a unit; install leasefs at a path of letters, digits and "
            "._+-/ only, or name one with --command",
            command=command,
        )
    if not flavour.user and command.startswith(_HIDDEN):
        raise InvalidRequest(
            f"the ledger's unit cannot see {command}: it is shut out of home and temporary directories; "
            "install leasefs elsewhere (python3 -m venv /opt/leasefs), or use --user",
            command=command,
        )
    return command


def _running() -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), "leasefs")
    if os.access(beside, os.X_OK):
        return beside
    return shutil.which("leasefs")
