"""`leasefs rescue show`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from leasefs.core.errors import InvalidRequest
from leasefs.core.paths import shown
from leasefs.vcs.rescue import content
from leasefs_cli.printing import say_json
from leasefs_cli.rescue_place import rescue_place
from leasefs_cli.rescue_rows import as_json as rescue_as_json
from leasefs_cli.rescue_rows import paths_as_json, say_rescue
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir
    from leasefs.vcs.rescue import KeptPath, Rescue


@teaching_command(
    "show",
    examples=[
        ("leasefs rescue show L17", "whose it is, why it was kept, and every path"),
        ("leasefs rescue show L17 src/a.py | diff src/a.py -", "how it differs from what is there"),
        ("leasefs rescue show L17 src", "the paths below a directory"),
    ],
)
@click.argument("rescue", metavar="ID")
@click.argument("path", required=False)
@json_option
def command(rescue: str, path: str | None, as_json: bool) -> None:
    """Show what rescue ID holds; with PATH of a file its bytes, of a link its text, on stdout.

    With --json the paths are described, and bytes are never printed: `git cat-file blob` gives those of
    a `blob`.
    """
    with rescue_place() as place:
        repository, found = place.read(rescue)
        if path is None:
            _describe(found, list(found.paths), as_json=as_json)
            return
        relative = place.relative(path)
        kept = found.holds(relative)
        if kept is not None and kept.blob and not as_json:
            _print(repository, found, relative)
            return
        below = [e for e in found.paths if e is kept or e.path.startswith(relative + b"/")]
        if not relative:
            below = list(found.paths)
        if not below:
            raise InvalidRequest(
                f"rescue {found.id} holds nothing at {shown(relative)}; `leasefs rescue show {found.id}` lists "
                "what it holds",
                rescue=found.id,
            )
        _describe(found, below, as_json=as_json)


def _describe(found: Rescue, entries: list[KeptPath], *, as_json: bool) -> None:
    if as_json:
        say_json({**rescue_as_json(found), "entries": paths_as_json(entries)})
    else:
        say_rescue(found, entries)


def _print(repository: GitDir, found: Rescue, relative: bytes) -> None:
    for piece in content(repository, found.id, relative):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
