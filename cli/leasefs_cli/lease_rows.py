"""Leases and sessions as rows for a person. The dicts are `leasefs.core.answers` as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leasefs_cli.durations import in_words
from leasefs_cli.lease_notes import lifted_by_hand, say_notes
from leasefs_cli.printing import say, say_columns

Answer = Mapping[str, Any]

_GLOBS_NAMED = 6
STATE_COLOURS = {
    "granted": "green",
    "recalled": "yellow",
    "frozen": "cyan",
    "lapsed": "yellow",
    "revoked": "red",
}


def who_is(answer: Answer) -> str:
    """`agent-07 (claude)`."""
    harness = answer.get("harness")
    return f"{answer.get('agent', '?')} ({harness})" if harness else str(answer.get("agent", "?"))


def globs_of(answer: Answer) -> str:
    """Its globs in one cell."""
    return some_of(answer.get("globs", ()))


def some_of(globs: Sequence[str]) -> str:
    """The first of them, and how many more: a region of a plan may have 256, which no terminal has room for."""
    more = len(globs) - _GLOBS_NAMED
    if more <= 1:
        return " ".join(globs)
    return f"{' '.join(globs[:_GLOBS_NAMED])} and {more} more"


def until(answer: Answer) -> str:
    """How long a lease has: `28m12s`, or `lapsed 2m ago`."""
    left_s = answer.get("expires_in_s")
    if left_s is None:
        return "-"
    if lifted_by_hand(answer):
        return "when lifted"
    return f"lapsed {in_words(-left_s)} ago" if left_s <= 0 else in_words(left_s)


def kept_by(answer: Answer) -> str:
    """What uses the lease: the first process and how many more."""
    uses = answer.get("kept_by", ())
    if not uses:
        return "-"
    return str(uses[0]) + (f" and {len(uses) - 1} more" if len(uses) > 1 else "")


def state_of(lease: Answer) -> str:
    """The state in one word; of a lease that is held, also why it will not be for long."""
    if lease["state"] != "granted":
        return str(lease["state"])
    return "frozen" if lease.get("frozen_by") else "recalled" if lease.get("recall") else "granted"


def say_leases(leases: Iterable[Answer]) -> None:
    """Held leases, one per line, then what there is to say of some."""
    found = list(leases)
    if not found:
        say("no leases")
        return
    say_columns(
        ("LEASE", "AGENT", "STATE", "MODE", "EXPIRES IN", "GLOBS", "KEPT BY"),
        [
            (
                lease["lease"],
                who_is(lease),
                state_of(lease),
                lease["mode"],
                until(lease),
                globs_of(lease),
                kept_by(lease),
            )
            for lease in found
        ],
        colours=[STATE_COLOURS.get(state_of(lease), "") for lease in found],
    )
    say_notes(found)


def say_sessions(sessions: Iterable[Answer]) -> None:
    """Sessions, one per line."""
    found = list(sessions)
    if not found:
        say("no sessions")
        return
    say_columns(
        ("SESSION", "AGENT", "KIND", "LIVE", "SEEN", "HOST", "PID", "TERRITORY"),
        [
            (
                session["session"],
                who_is(session),
                session["kind"],
                "yes" if session["live"] else "no",
                in_words(session["seen_ago_s"]) + " ago",
                session["host"],
                str(session["pid"]),
                session["territory"],
            )
            for session in found
        ],
        right=frozenset({6}),
        colours=["green" if session["live"] else "yellow" for session in found],
    )
