"""The differences that are known, each with the reason that docs/SEMANTICS.md gives for it."""

from __future__ import annotations

import re

# (suite, regular expression over the test's name, reason)
_KNOWN: list[tuple[str, str, str]] = []


def known_reason(suite: str, test: str) -> str:
    """Why this test may fail through a mount; empty if it may not."""
    for of_suite, pattern, reason in _KNOWN:
        if of_suite == suite and re.search(pattern, test):
            return reason
    return ""
