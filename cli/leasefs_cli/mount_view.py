"""What a mount says of itself over its control socket, as rows and words for a person.

The facts are those of `.leasefs/leases.json` and `.leasefs/refusals.json`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from leasefs_cli.durations import in_words
from leasefs_cli.lease_rows import globs_of, some_of
from leasefs_cli.printing import say, say_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.client import api


def last_refusal(said: api.Body, path: str) -> api.Body | None:
    """The newest refusal on exactly this path of those that a mount told it remembers, or None."""
    return next((refusal for refusal in said["refusals"] if refusal["path"] == path), None)


def refusal_words(refusal: api.Body) -> str:
    """`write by sed[4711] at 14:02:11: no lease of this mount covers the path`."""
    at = datetime.fromisoformat(refusal["time"]).astimezone()
    by = f"{refusal['program'] or 'a process'}[{refusal['pid']}]"
    there = f"; there now: {refusal['there']}" if refusal.get("there") else ""
    passed = "passed, since the mount only observes: " if refusal.get("observed") else ""
    return f"{refusal['operation']} by {by} at {at:%H:%M:%S}: {passed}{refusal['reason']}{there}"


def mount_recall_words(recall: api.Body) -> str:
    """`L7 src/** is recalled by ann (why), to be given up within 25s; what to do next`."""
    left_s = recall.get("yields_in_s")
    when = f", to be given up within {in_words(left_s)}" if left_s is not None else ""
    who = (
        f"is recalled by {recall['by']}"
        if left_s is not None
        else f"was recalled by {recall['by']}"
    )
    return f"{recall['lease']} {some_of(recall['globs'])} {who} ({recall['reason']}){when}; {recall['next']}"


def say_trusted(leases: Iterable[api.Body]) -> None:
    """What the mount holds, by its own clock: this is what lets a write pass."""
    found = list(leases)
    if not found:
        say("no leases")
        return
    say_columns(
        ("LEASE", "MODE", "TRUSTED FOR", "GLOBS", "KEPT BY"),
        [
            (
                lease["id"],
                lease["mode"],
                in_words(lease["trusted_for_s"]) if lease["trusted_for_s"] else "lapsed",
                globs_of(lease),
                ", ".join(lease["kept_by"]) or "-",
            )
            for lease in found
        ],
        colours=["green" if lease["trusted_for_s"] else "yellow" for lease in found],
    )
