"""Leases, waiters and sessions as rows for a person. The dicts are `leasefs.core.answers` as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from leasefs_cli.durations import in_words
from leasefs_cli.printing import say, say_columns

Answer = Mapping[str, Any]

STATE_COLOURS = {"granted": "green", "lapsed": "yellow", "revoked": "red", "waiting": "cyan"}


def who_is(answer: Answer) -> str:
    """`agent-07 (claude)`."""
    harness = answer.get("harness")
    return f"{answer.get('agent', '?')} ({harness})" if harness else str(answer.get("agent", "?"))


def globs_of(answer: Answer) -> str:
    """All globs in one cell."""
    return " ".join(answer.get("globs", ()))


def until(answer: Answer) -> str:
    """How long a lease has: `28m12s`, or `lapsed 2m ago`."""
    left_s = answer.get("expires_in_s")
    if left_s is None:
        return "-"
    return f"lapsed {in_words(-left_s)} ago" if left_s <= 0 else in_words(left_s)


def kept_by(answer: Answer) -> str:
    """What uses the lease: the first process and how many more."""
    uses = answer.get("kept_by", ())
    if not uses:
        return "-"
    return str(uses[0]) + (f" and {len(uses) - 1} more" if len(uses) > 1 else "")


def say_leases(leases: Iterable[Answer]) -> None:
    """Held leases, one per line."""
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
                lease["state"],
                lease["mode"],
                until(lease),
                globs_of(lease),
                kept_by(lease),
            )
            for lease in found
        ],
        colours=[STATE_COLOURS.get(lease["state"], "") for lease in found],
    )


def say_waiters(waiters: Iterable[Answer]) -> None:
    """Waiting claims in the order of service, one per line."""
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
                str(waiter.get("priority", 0)),
                in_words(waiter.get("waiting_for_s") or 0.0),
                eta(waiter),
                globs_of(waiter),
                blockers_of(waiter),
            )
            for waiter in found
        ],
        right=frozenset({2, 3}),
    )


def eta(waiter: Answer) -> str:
    """The ledger's estimate, or `-`."""
    seconds = waiter.get("eta_s")
    return "-" if seconds is None else in_words(seconds)


def blockers_of(waiter: Answer) -> str:
    """`agent-02 (L17), agent-03 (L19)`."""
    found = waiter.get("waits_for", ())
    return ", ".join(f"{blocker['agent']} ({blocker['id']})" for blocker in found) or "-"


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
