"""Entry point of the `leasefs` command."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; every failure becomes one line and a documented exit code."""
    arguments = sys.argv[1:]
    try:
        from leasefs_cli.interrupts import dying_of_ctrl_c

        with dying_of_ctrl_c():
            from leasefs_cli.root import run

            return run(arguments)
    except BaseException as failure:  # noqa: BLE001 - the last line of defence: no traceback for users
        from leasefs_cli.failing import explain

        return explain(failure, arguments)
