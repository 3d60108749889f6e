"""`leasefs why`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from leasefs.client import api
from leasefs.client.find import require_mount
from leasefs.core.paths import shown, text
from leasefs_cli.asking_about import claims_over, meets, subject
from leasefs_cli.exit_codes import DONE, REFUSED
from leasefs_cli.explaining import Claims, Explanation, by_policy, explain
from leasefs_cli.inherited_words import inherited_lines, own_work_lines
from leasefs_cli.judging import judge, names_of
from leasefs_cli.mount_view import last_refusal, refusal_words
from leasefs_cli.place import view
from leasefs_cli.printing import coloured, printable, say, say_json
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs_cli.asking_about import Subject
    from leasefs_cli.place import View


@teaching_command(
    "why",
    own_codes=[("0", "a write would pass"), ("3", "a write would be refused")],
    examples=[
        ("leasefs why README.md", 'after "Permission denied"'),
        ("leasefs why src && make install", "only if everything in a directory may be changed"),
    ],
)
@click.argument("path")
@json_option
def command(path: str, as_json: bool) -> int:
    """Say whether a write to PATH by this mount's agent would pass; if not, why, and what to do.

    A mount that claims what its writes need, waits, or only observes (`leasefs mount --unleased`) is asked what it does.
    If it would, what the last holder left on that ground is shown too: a note, rescues, uncommitted paths.
    If not, where uncommitted work of this agent's on that ground is kept.
    For a directory the question is whether everything in it may be changed. PATH need not exist.
    """
    seen = view(path)
    if seen.mount is None:
        require_mount(os.path.dirname(os.path.abspath(path)))
    about = subject(seen, path, literal=True)
    held, waiting = claims_over(seen, about)
    session = seen.mount.session if seen.mount else ""
    claims = Claims(
        [claim for claim in (*held, *waiting) if claim["session"] == session],
        [claim for claim in (*held, *waiting) if claim["session"] != session],
    )
    relative = about.glob.literal_path
    verdict = judge(about.roots, relative, claims.ours, claims.theirs)
    said = seen.link.send(api.mount())
    told = explain(verdict, claims, path)
    told = by_policy(told, verdict, claims, said.get("unleased") or {})
    refusal = last_refusal(said, text(relative))
    inherited = _inherited(seen, claims)
    own_work = [] if told.passes else _own_work(seen, about)
    if as_json:
        facts = _as_json(text(relative), told, claims, refusal)
        inherits = [lease["inherits"] for lease in inherited]
        say_json({**facts, "inherits": inherits, "own_work": own_work})
    else:
        _show(shown(relative) or ".", told, refusal, names_of(about.roots, relative))
        for lease in inherited:
            for line in inherited_lines(lease):
                say(printable(line))
        for line in own_work_lines(own_work):
            say(printable(line))
    return DONE if told.passes else REFUSED


def _inherited(seen: View, claims: Claims) -> list[api.Body]:
    """Our leases over the path, with what lies on their ground."""
    ours = [claim["lease"] for claim in claims.ours if claim["state"] != "waiting"]
    found = [seen.link.send(api.lease(id_)) for id_ in ours]
    return [lease for lease in found if lease.get("inherits")]


def _own_work(seen: View, about: Subject) -> list[api.Body]:
    """The rescues of this agent's own work on that ground, newest first (P9)."""
    rescues = seen.link.send(api.rescues(about.territory))["rescues"]
    return [
        rescue
        for rescue in rescues
        if seen.mount and rescue["agent"] == seen.mount.agent and meets(rescue, about.glob)
    ]


def _as_json(
    path: str, told: Explanation, claims: Claims, refusal: api.Body | None
) -> dict[str, object]:
    return {
        "path": path,
        "passes": told.passes,
        "reason": told.reason,
        "next": told.next_step,
        "ours": list(claims.ours),
        "theirs": list(claims.theirs),
        "last_refusal": refusal,
    }


def _show(path: str, told: Explanation, refusal: api.Body | None, names: int) -> None:
    word = coloured("may be written", "green", sys.stdout)
    if not told.passes:
        word = coloured("is closed to you", "red", sys.stdout)
    say(f"{path} {word}: {printable(told.reason)}")
    if told.next_step:
        say(f"next: {printable(told.next_step)}")
    if names > 1:
        say(f"note: the file has {names} names (hard links); a write needs each of them leased")
    if refusal:
        how = "observed" if refusal.get("observed") else "refused"
        say(f"last {how}: {printable(refusal_words(refusal))}")
