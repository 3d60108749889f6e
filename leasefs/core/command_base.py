"""What all commands have in common."""

from __future__ import annotations

from msgspec import Struct


class Command(Struct, frozen=True):
    """Base of all commands."""
