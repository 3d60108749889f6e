"""Where the event log lives: a small port and its engines."""

from __future__ import annotations
