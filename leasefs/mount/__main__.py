"""`python -m leasefs.mount CONFIG_FD STATUS_FD`: one mount, configured through a pipe (see `leasefs.mount.launch`).

The descriptors are of two pipes: what to mount is read from the first, one line of JSON on what came of it is
written to the second.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from leasefs.client.config import give_all
from leasefs.client.log_setup import log_as
from leasefs.core.errors import LeasefsError
from leasefs.mount.control_server import refusal
from leasefs.mount.daemon import run
from leasefs.mount.launch import decode_config


def main() -> int:
    """Mount and serve until told to stop. 0: stopped in order. 1: not mounted, or ended by a fault. 2: called wrongly."""
    try:
        config_fd, status_fd = map(int, sys.argv[1:])
    except ValueError:
        sys.stderr.write(f"{__doc__}\nTo mount, call `leasefs mount`.\n")
        return 2
    with open(config_fd, "rb") as pipe:
        config = decode_config(pipe.read())

    def tell(outcome: dict[str, Any]) -> None:
        # Whoever started us may have left meanwhile; that is no reason to stop.
        with contextlib.suppress(BrokenPipeError), open(status_fd, "wb") as status:
            status.write(json.dumps(outcome).encode() + b"\n")

    try:
        give_all(config.settings)
        log_as("leasefs-mount", {"agent": config.agent})
    except LeasefsError as error:
        tell({"error": refusal(error)[1]["error"]})
        return 1
    return run(config, tell)


if __name__ == "__main__":
    sys.exit(main())
