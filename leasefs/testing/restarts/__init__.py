"""A ledger that is restarted again and again under load, and what must hold of all that it answered."""

from __future__ import annotations
