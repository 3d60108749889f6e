"""What `scripts/chaos` is made of; see docs/CHAOS.md. What a recording means is judged in leasefs.testing.chaos."""

from __future__ import annotations
