"""The rules: pure, no I/O, no clock. Everything else calls this."""

from __future__ import annotations
