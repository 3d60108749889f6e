"""Intents as rows and words for a person. The dicts are `leasefs.core.answers.IntentAnswer` as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs_cli.durations import in_words
from leasefs_cli.lease_rows import who_is
from leasefs_cli.printing import say, say_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.place import View

_COLOURS = {"dirty": "yellow", "committed": "cyan"}


def say_intents(intents: Sequence[api.Body], now_s: float) -> None:
    """One line each. `now_s`: seconds since the epoch; the times of other hosts may be a little off."""
    if not intents:
        say("nothing is uncommitted or unpushed")
        return
    say_columns(
        ("AGENT", "STATE", "SINCE", "KIND", "PATH", "LEASE", "TREE", "NOTE"),
        [
            (
                who_is(one),
                one["state"],
                in_words(max(0.0, now_s - one["first_wall_s"])),
                one["kind"],
                path_of(one),
                one["lease"],
                f"{one['host']}:{one['root']}",
                _note(one),
            )
            for one in intents
        ],
        right=frozenset({2}),
        colours=[_COLOURS.get(one["state"], "") for one in intents],
    )


def path_of(intent: api.Body) -> str:
    """The path; of a rename, with the other name."""
    if intent["kind"] == "rename-from":
        return f"{intent['path']} (was {intent['other']})"
    if intent["kind"] == "rename-to":
        return f"{intent['path']} (now {intent['other']})"
    return str(intent["path"])


def _note(intent: api.Body) -> str:
    over = [] if intent["held"] else ["lease over"]
    return ", ".join(over + [word for word in ("fenced", "recovered") if intent[word]]) or "-"


def counts(seen: View, agent: str, now_s: float) -> api.Body:
    """What the agent has in this territory: `dirty`, for how long the oldest of them, and `unlanded`."""
    dirty = seen.link.send(api.intents(seen.territory, agent=agent, state="dirty", limit="1"))
    unlanded = seen.link.send(
        api.intents(seen.territory, agent=agent, state="committed", limit="1")
    )
    oldest_s = max((now_s - one["first_wall_s"] for one in dirty["intents"]), default=None)
    return {
        "dirty": dirty["total"],
        "oldest_dirty_s": None if oldest_s is None else max(0.0, oldest_s),
        "unlanded": unlanded["total"],
    }


def counts_in_words(counts: api.Body | None) -> str:
    """`2 dirty, the oldest for 3h05m; 5 committed and not landed`."""
    if counts is None:
        return "not known without the ledger"
    if not counts["dirty"] and not counts["unlanded"]:
        return "nothing"
    oldest_s = counts["oldest_dirty_s"]
    since = "" if oldest_s is None else f", the oldest for {in_words(oldest_s)}"
    return f"{counts['dirty']} dirty{since}; {counts['unlanded']} committed and not landed"
