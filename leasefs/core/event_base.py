"""What all events have in common."""

from __future__ import annotations

from msgspec import Struct


class Event(Struct, frozen=True, tag_field="type"):
    """Base of all events."""
