"""What an identity may do: roles, each of which may all that those before it may, and priorities by name."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """`observer` reads; `agent` also has sessions, and claims in them; `operator` also decides for others."""

    OBSERVER = "observer"
    AGENT = "agent"
    OPERATOR = "operator"

    def may(self, needed: Role) -> bool:
        """Whether this role is enough where `needed` is."""
        return _ORDER[self] >= _ORDER[needed]


_ORDER = {role: place for place, role in enumerate(Role)}

HUMAN = 100
PRIORITIES = {"human": HUMAN, "urgent": 20, "normal": 0, "background": -20}
"""How urgent a claim is, by name."""
LEAST_PRIORITY, GREATEST_PRIORITY = -100, 100

MAX_GRACE_S = 30 * 24 * 3600.0
"""How long a token that was replaced may stay good, at most."""

USUAL_PRIORITY = {Role.OBSERVER: 0, Role.AGENT: 0, Role.OPERATOR: HUMAN}
"""The highest that an identity of a role may claim with unless its operator says otherwise.

`normal` for agents: a higher one recalls what others hold.
"""


def priority_name(priority: int) -> str:
    """The name of this priority if it has one, else the number."""
    for name, value in PRIORITIES.items():
        if value == priority:
            return name
    return str(priority)
