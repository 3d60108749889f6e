"""Outside test suites, each run on a plain directory and through a mount; see docs/SUITES.md."""

from __future__ import annotations
