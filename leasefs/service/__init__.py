"""The ledger as a server: HTTP over a Unix socket or TCP, one writer, many readers."""

from __future__ import annotations
