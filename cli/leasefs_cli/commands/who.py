"""`leasefs who`."""

from __future__ import annotations

import click

from leasefs_cli.asking_about import claims_over, subject
from leasefs_cli.lease_rows import say_leases
from leasefs_cli.place import view
from leasefs_cli.printing import printable, say, say_json
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.waiter_rows import say_waiters


@teaching_command(
    "who",
    examples=[
        ("leasefs who README.md", "who may write it, until when, and who is next"),
        ("leasefs who packages/core", "who holds or wants anything below a directory"),
        ("leasefs who 'src/**/*.py'", "or anything that a glob matches"),
    ],
)
@click.argument("path")
@json_option
def command(path: str, as_json: bool) -> None:
    """Show who holds PATH and who waits for it.

    PATH need not exist. A directory, or a glob, stands for everything in it.
    """
    seen = view(path)
    about = subject(seen, path)
    held, waiting = claims_over(seen, about)
    if as_json:
        say_json({"path": about.glob.text, "held": held, "waiting": waiting})
        return
    if not held and not waiting:
        say(f"nobody holds {printable(about.glob.text)} or waits for it")
        return
    if held:
        say_leases(held)
    if waiting:
        say_waiters(waiting)
