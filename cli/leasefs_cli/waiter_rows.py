"""Waiting claims as rows and words for a person. The dicts are `leasefs.core.answers` as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from leasefs_cli.durations import in_words
from leasefs_cli.lease_notes import say_notes
from leasefs_cli.lease_rows import globs_of, some_of, who_is
from leasefs_cli.printing import say, say_columns
from leasefs_cli.priorities import name_of

Answer = Mapping[str, Any]

_BLOCKERS_NAMED = 3


def say_waiters(waiters: Iterable[Answer]) -> None:
    """Waiting claims in the order of service, one per line, then what there is to say of some."""
    found = list(waiters)
    if not found:
        say("nobody waits")
        return
    say_columns(
        ("CLAIM", "AGENT", "POSITION", "PRIORITY", "WAITED", "ETA", "GLOBS", "WAITS FOR"),
        [
            (
                waiter["lease"],
                who_is(waiter),
                str(waiter.get("position") or "-"),
                name_of(waiter.get("priority", 0)),
                in_words(waiter.get("waiting_for_s") or 0.0),
                eta(waiter),
                _globs_with_places(waiter),
                blockers_of(waiter),
            )
            for waiter in found
        ],
        right=frozenset({2, 3}),
    )
    say_notes(found)


def eta(waiter: Answer) -> str:
    """The estimate with its spread, and on how many past holds it rests: `2m (40s to 9m, from 12 holds)`."""
    seconds = waiter.get("eta_s")
    if seconds is None:
        return "unknown"
    low_s, high_s = waiter.get("eta_low_s"), waiter.get("eta_high_s")
    if low_s is None or high_s is None:
        return in_words(seconds)
    holds = waiter.get("eta_from", 0)
    spread = f"{in_words(low_s)} to {in_words(high_s)}"
    return f"{in_words(seconds)} ({spread}, from {holds} hold{'s' * (holds != 1)})"


def blockers_of(waiter: Answer) -> str:
    """`bo (L17), ann (L19, yields within 25s) and 3 more`."""
    found = waiter.get("waits_for", ())
    shown = ", ".join(blocker_words(blocker) for blocker in found[:_BLOCKERS_NAMED])
    more = len(found) - _BLOCKERS_NAMED
    return (shown + (f" and {more} more" if more > 0 else "")) or "-"


def blocker_words(blocker: Answer) -> str:
    """Who or what is waited for, and when it yields if that is known."""
    kind, id_, agent = blocker.get("kind"), blocker["id"], blocker["agent"]
    if kind == "closed":
        return str(blocker.get("reason", ""))
    if kind == "admission":
        return f"admission: {blocker.get('reason', '')}"
    if kind == "freeze":
        return f"the freeze {id_} by {agent}: {blocker.get('reason', '')}"
    if kind == "claim" and blocker.get("reason"):
        return f"the freeze {id_} by {agent}, which comes first: {blocker['reason']}"
    if kind == "claim":
        return f"{agent} ({id_}, waits too)"
    if blocker.get("revoked"):
        return f"{agent} ({id_}, revoked, free within {in_words(blocker['expires_in_s'])})"
    if blocker.get("yields_in_s") is not None:
        return f"{agent} ({id_}, yields within {in_words(blocker['yields_in_s'])})"
    return f"{agent} ({id_})"


def _globs_with_places(waiter: Answer) -> str:
    """Its globs in one cell; where they have different places, each with its own."""
    places = waiter.get("places", ())
    if len({place["position"] for place in places}) < 2:
        return globs_of(waiter)
    return some_of([f"{place['glob']} ({place['position']})" for place in places])
