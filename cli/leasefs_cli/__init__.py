"""The `leasefs` command: parse, call, print."""

from __future__ import annotations
