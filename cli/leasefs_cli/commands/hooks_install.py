"""`leasefs hooks install`."""

from __future__ import annotations

import os
import shlex

import click

from leasefs.core.errors import InvalidRequest
from leasefs.vcs.errors import VcsError
from leasefs.vcs.hook_script import NAMES
from leasefs.vcs.hooks import HooksPlace, hooks_place, install
from leasefs_cli.hook_rows import as_json_rows, say_hooks
from leasefs_cli.printing import say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "install",
    examples=[
        ("leasefs hooks install", "may be run again at any time"),
        ("leasefs hooks install --shared", "in a directory of core.hooksPath"),
    ],
)
@click.option(
    "--shared",
    is_flag=True,
    help="Also where other repositories or clones have their hooks, too (core.hooksPath).",
)
@json_option
def command(shared: bool, as_json: bool) -> None:
    """Install pre-commit, commit-msg and pre-push for all working trees of this clone.

    A hook of yours that is a shell script gets a few lines of ours at its beginning. Any other is kept
    in `before-leasefs/` beside it, and runs after ours with the same arguments and input. Its exit
    status counts as before. Where leasefs is not on PATH, ours say so and pass.
    """
    try:
        place = hooks_place()
        if place.shared and not shared:
            raise InvalidRequest(_not_alone(place), directory=place.directory)
        states = install(place)
    except VcsError as error:
        raise InvalidRequest(str(error)) from error
    if as_json:
        say_json(as_json_rows(place, states))
    else:
        say_hooks(states)


def _not_alone(place: HooksPlace) -> str:
    first = shlex.quote(os.path.join(place.directory, NAMES[0]))
    return (
        f"{place.shared}: others may have their hooks there, too, so nothing was installed; give --shared to "
        f'install in {place.directory}, or add the line `leasefs hooks run {NAMES[0]} "$@" || exit $?` to {first} '
        f"yourself, and likewise for {' and '.join(NAMES[1:])}"
    )
