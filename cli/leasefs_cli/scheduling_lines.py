"""Events about leases that begin, move and end, as words: what `event_lines` puts into a line.

Each teller takes the event, with the ledger time at which it happened as `at_s`, and gives the agent and what befell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leasefs_cli.durations import in_words
from leasefs_cli.priorities import name_of

Event = Mapping[str, Any]


def _claim(claim: Event) -> str:
    if claim.get("frozen_by"):
        return f"{claim['id']} {' '.join(claim['globs'])} frozen: {claim.get('note', '')}"
    return (
        f"{claim['id']} {' '.join(claim['globs'])} {claim['mode']} for {in_words(claim['ttl_s'])}"
        + "".join(_about(claim))
    )


def _about(claim: Event) -> Iterator[str]:
    """What is special about a claim."""
    if claim.get("priority"):
        yield f", priority {name_of(claim['priority'])}"
    if claim.get("parent"):
        yield f", delegated out of {claim['parent']}"
    if claim.get("resumes"):
        yield f", brings back {claim['resumes']}"
    if claim.get("replaces"):
        yield f", upgrades {claim['replaces']}"


def _granted(event: Event) -> tuple[str, str]:
    return event["claim"]["agent"], _claim(event["claim"]) + "".join(
        f"; {_handed_over(note)}" for note in event.get("notes", ())
    )


def _handed_over(note: Event) -> str:
    commit = f" at commit {note['commit'][:12]}" if note.get("commit") else ""
    if not note["text"]:
        return f"after {note['agent']} ({note['lease']}){commit}"
    return f"note from {note['agent']} ({note['lease']}){commit}: {note['text']}"


def _queued(event: Event) -> tuple[str, str]:
    claim = event["claim"]
    behind = f", behind {', '.join(event['behind'])}" if event["behind"] else ", for admission"
    expected = f", ETA {in_words(event['eta_s'])}" if event.get("eta_s") is not None else ""
    return claim["agent"], f"{_claim(claim)}{behind}{expected}"


def _recalled(event: Event) -> tuple[str, str]:
    recall = event["recall"]
    within = in_words(max(0.0, recall["deadline_s"] - event["at_s"]))
    how = "nothing may be written any more" if recall.get("cold") else f"to yield within {within}"
    more = ", which is more time than before" if recall.get("extended") else ""
    return event["agent"], f"{event['lease']} by {recall['by']}: {recall['reason']}; {how}{more}"


def _recall_ended(event: Event) -> tuple[str, str]:
    return event["agent"], f"{event['lease']} may be kept: {event['reason']}"


def _downgraded(event: Event) -> tuple[str, str]:
    return event["agent"], f"{event['lease']} is shared from here on, and was exclusive"


_LIMITS = (
    ("max_exclusive", "exclusive leases", str),
    ("max_unlanded", "leases with unlanded work", str),
    ("max_leases", "leases of one agent", str),
    ("max_share", "of the files under one lease", lambda value: f"{value:.0%}"),
    ("max_hold_s", "held at most", in_words),
)


def _admission_set(event: Event) -> tuple[str, str]:
    limits = event["admission"]
    words = [
        f"{shown(limits[name])} {what}"
        for name, what, shown in _LIMITS
        if limits.get(name) is not None
    ]
    why = f" ({limits['reason']})" if limits.get("reason") else ""
    said = f"at most {', '.join(words)}" if words else "no limits"
    return limits.get("by", ""), f"{event['territory']}: {said}{why}"


def _hold_set(event: Event) -> tuple[str, str]:
    left = in_words(max(0.0, event["hold_until_s"] - event["at_s"]))
    return event[
        "agent"
    ], f"{event['lease']} may be held for {left} from here on, says {event['by']}"


def _revoked(event: Event) -> tuple[str, str]:
    late = ", at the deadline of a recall" if event.get("for_recall") else ""
    return event["agent"], f"{event['lease']}: by {event['by']}{late}"


def _expired(event: Event) -> tuple[str, str]:
    return event["agent"], f"{event['lease']}: {event['reason']}{_returns(event)}"


def _returns(event: Event) -> str:
    return "; its ground goes back to who delegated it" if event.get("returns_to") else ""


def _released(event: Event) -> tuple[str, str]:
    left = {
        "kept": "; uncommitted work stays in the tree",
        "handed-on": "; uncommitted work stays in the tree, for others to build upon",
        "forced": "; forced, although work is uncommitted",
        "rescued": "; uncommitted work is in a rescue",
    }.get(event.get("left", ""), "")
    note = f"; note for the next holder: {event['note']}" if event.get("note") else ""
    commit = f" at commit {event['commit'][:12]}" if event.get("commit") else ""
    words = f"{event['lease']}: {event['reason']}{commit}{left}{note}{_returns(event)}"
    return event["agent"], words


TELLERS: dict[str, Callable[[Event], tuple[str, str]]] = {
    "granted": _granted,
    "queued": _queued,
    "recalled": _recalled,
    "recall-ended": _recall_ended,
    "released": _released,
    "revoked": _revoked,
    "expired": _expired,
    "downgraded": _downgraded,
    "admission-set": _admission_set,
    "hold-set": _hold_set,
}
