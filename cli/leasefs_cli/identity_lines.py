"""Events about identities as words: what `event_lines` puts into a line, as in `scheduling_lines`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leasefs_cli.durations import in_words
from leasefs_cli.priorities import name_of

Event = Mapping[str, Any]


def _added(event: Event) -> tuple[str, str]:
    identity = event["identity"]
    return identity["name"], f"{_standing(identity)}, by {identity['added_by']}"


def _changed(event: Event) -> tuple[str, str]:
    return event["agent"], f"is {_standing(event)}, by {event['by']}"


def _standing(of: Mapping[str, Any]) -> str:
    """What an identity may, and whose it is."""
    bound = of.get("uid") is not None
    whose = f", local user {of['user'] or of['uid']}" if bound else ""
    return f"{of['role']}{whose}, priority {name_of(of['priority'])} at most"


def _rotated(event: Event) -> tuple[str, str]:
    left_s = event["good_until_s"] - event["at_s"]
    former = f"; the former one is good for {in_words(left_s)} more" if left_s > 0 else ""
    return event["agent"], f"has another token, by {event['by']}{former}"


def _revoked(event: Event) -> tuple[str, str]:
    return event["agent"], f"by {event['by']}: its sessions lose all that they hold"


TELLERS: dict[str, Callable[[Event], tuple[str, str]]] = {
    "agent-added": _added,
    "agent-changed": _changed,
    "agent-rotated": _rotated,
    "agent-revoked": _revoked,
}
