"""Events about identities as words: what `event_lines` puts into a line, as in `scheduling_lines`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leasefs_cli.durations import in_words
from leasefs_cli.priorities import name_of

Event = Mapping[str, Any]


def _added(event: Event) -> tuple[str, str]:
    identity = event["identity"]
    bound = identity.get("uid") is not None
    whose = f", local user {identity['user'] or identity['uid']}" if bound else ""
    priority = name_of(identity["priority"])
    return identity[
        "name"
    ], f"{identity['role']}{whose}, priority {priority} at most, by {identity['added_by']}"


def _changed(event: Event) -> tuple[str, str]:
    bound = event.get("uid") is not None
    whose = f", local user {event['user'] or event['uid']}" if bound else ""
    priority = name_of(event["priority"])
    return event[
        "agent"
    ], f"is {event['role']}{whose}, priority {priority} at most, by {event['by']}"


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
