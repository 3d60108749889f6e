"""Judging what was recorded while mounts, ledgers and disks failed. Pure; `scripts/chaos` makes the recordings."""

from __future__ import annotations
