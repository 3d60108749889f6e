"""What a mount does about a change that no lease covers: in words, and within which bounds.

`deny` refuses. `claim` claims the path, or the smallest region of the territory around it; `wait` waits for the
lease, with `claim` for the one that is claimed, alone for any; `observe` lets the change pass and reports it.

Light: the command line and whoever reads a project's file import it.
"""

from __future__ import annotations

from typing import NamedTuple

WORDS = ("deny", "claim", "wait", "claim+wait", "observe")

DEFAULT_WAIT_S = 60.0
MAX_WAIT_S = 3600.0
DEFAULT_IDLE_S = 2.0
MAX_IDLE_S = 600.0
DEFAULT_TTL_S = 30.0
MAX_REGIONS = 256


class UnleasedPolicy(NamedTuple):
    """One of `WORDS`, taken apart; nothing set is `deny`."""

    claims: bool = False
    waits: bool = False
    observes: bool = False

    @property
    def word(self) -> str:
        """The one of `WORDS` that it is."""
        if self.claims:
            return "claim+wait" if self.waits else "claim"
        return "wait" if self.waits else "observe" if self.observes else "deny"


DENY = UnleasedPolicy()


def parse_policy(text: str) -> UnleasedPolicy:
    """Read a policy: one of `WORDS`, with `+` or `,` between two. Raises ValueError."""
    words = frozenset(text.replace(",", "+").split("+"))
    for known in WORDS:
        if words == frozenset(known.split("+")):
            return UnleasedPolicy("claim" in words, "wait" in words, "observe" in words)
    raise ValueError(f"one of {', '.join(WORDS)}, not {text!r}")
