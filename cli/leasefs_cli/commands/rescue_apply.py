"""`leasefs rescue apply`."""

from __future__ import annotations

import click

from leasefs.core.errors import Dirty, LeasefsError, NotHolder
from leasefs.core.paths import shown, text
from leasefs.vcs.errors import RestoreRefused, RestoreStopped
from leasefs.vcs.rescue import Restored, restore
from leasefs_cli.printing import say, say_json, tell
from leasefs_cli.rescue_place import rescue_place
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "apply",
    own_codes=[
        ("5", "a path is not under a lease of yours; what came before it is written"),
        ("6", "other work is in the way; nothing was touched"),
    ],
    examples=[
        ("leasefs rescue apply L17", "all of it"),
        ("leasefs rescue apply L17 src/a.py docs", "one file, and what is below a directory"),
        ("leasefs rescue apply L17 --overwrite", "even over other uncommitted work"),
    ],
)
@click.argument("rescue", metavar="ID")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace what has other content by now. What the rescue does not know is never removed.",
)
@json_option
def command(rescue: str, paths: tuple[str, ...], overwrite: bool, as_json: bool) -> None:
    """Write the paths of rescue ID back as they were: contents, modes, links, deletions.

    In a mount, claim them first: this writes as any program does. Nothing is touched unless each path is
    as the rescue has it, as it was before it, or missing. The rescue stays until it is dropped.
    """
    with rescue_place() as place:
        repository, found = place.read(rescue)
        wanted = [place.relative(path) for path in paths]
        chosen = None if not wanted or b"" in wanted else wanted
        try:
            done = restore(repository, found.id, place.root_fd, chosen, overwrite=overwrite)
        except RestoreRefused as error:
            raise Dirty.restored(str(error), {"rescue": found.id}) from error
        except RestoreStopped as error:
            kind = NotHolder if isinstance(error.__cause__, PermissionError) else LeasefsError
            raise kind.restored(str(error), {"rescue": found.id}) from error
    if as_json:
        said = {"changed": done.changed, "unchanged": done.unchanged}
        say_json({"rescue": found.id, **{name: list(map(text, said[name])) for name in said}})
    else:
        _say(found.id, done)


def _say(rescue: str, done: Restored) -> None:
    for path in done.changed:
        say(shown(path))
    already = f", {len(done.unchanged)} were as they should be" if done.unchanged else ""
    tell(
        f"{len(done.changed)} paths of rescue {rescue} written{already}; once committed, "
        f"`leasefs rescue drop {rescue}`"
    )
