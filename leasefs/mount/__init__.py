"""The FUSE layer: one process, one mount, one agent."""

from __future__ import annotations
