"""The lessee side: finding and talking to the ledger, sessions, heartbeats, the held view."""

from __future__ import annotations
