"""What git knows: the git directory, tracked paths, ignore rules. Knows no ledger."""

from __future__ import annotations
