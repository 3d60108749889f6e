"""`leasefs freezes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import api_scheduling
from leasefs_cli.durations import in_words
from leasefs_cli.lease_notes import lifted_by_hand
from leasefs_cli.place import view
from leasefs_cli.printing import say, say_columns, say_json
from leasefs_cli.teaching import everywhere_option, json_option, teaching_command
from leasefs_cli.waiter_rows import blockers_of

if TYPE_CHECKING:
    from leasefs.client import api


@teaching_command(
    "freezes",
    examples=[
        ("leasefs freezes", "what is frozen in this repository, and why"),
        ("leasefs freezes --all --json", "in every repository, for a program"),
    ],
)
@everywhere_option
@json_option
def command(everywhere: bool, as_json: bool) -> None:
    """List what is frozen, and what will be as soon as its holders have yielded.

    Nobody may write there until the freeze is lifted (`leasefs unfreeze ID`) or its time is over.
    """
    seen = view(everywhere=everywhere)
    found = seen.link.send(api_scheduling.freezes(seen.territory))["freezes"]
    if as_json:
        say_json({"freezes": found})
    elif not found:
        say("nothing is frozen")
    else:
        say_columns(
            ("ID", "BY", "LASTS", "GLOBS", "REASON"),
            [
                (one["lease"], one["frozen_by"], _lasts(one), " ".join(one["globs"]), one["note"])
                for one in found
            ],
        )


def _lasts(freeze: api.Body) -> str:
    if freeze["state"] == "waiting":
        return f"waits for {blockers_of(freeze)}"
    return "until lifted" if lifted_by_hand(freeze) else in_words(max(0.0, freeze["expires_in_s"]))
