"""Where the system's units keep what is theirs: they run as root, and with other directories than root's own shell."""

from __future__ import annotations

import os

from leasefs.core.errors import Denied

# As `systemd/leasefs-mount@.service` says; a test compares.
ENVIRONMENT = {
    "LEASEFS_LEDGER": "unix:/run/leasefs/ledger.sock",
    "XDG_STATE_HOME": "/var/lib/leasefs-mounts",
    "XDG_RUNTIME_DIR": "/run/leasefs-mounts",
}


def look_as_services_do() -> None:
    """Have this process find what the services find. Raises Denied for anyone but root."""
    if os.geteuid() != 0:
        raise Denied("what the system's services left can only be looked at by root")
    os.environ.update(ENVIRONMENT)


def unseen_services() -> str:
    """The directory of services' state that a look as oneself leaves out; empty if there is none."""
    place = ENVIRONMENT["XDG_STATE_HOME"]
    seen = os.environ.get("XDG_STATE_HOME") == place
    return "" if seen or os.geteuid() != 0 or not os.path.isdir(place) else place
