"""Identities as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs_cli.durations import in_words
from leasefs_cli.printing import say, say_columns
from leasefs_cli.priorities import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.client import api

_TITLES = ("AGENT", "ROLE", "PRIORITY", "USER", "SESSIONS", "USED", "TOKEN", "BY")
_NUMBERS = frozenset({4})


def say_agents(agents: Sequence[api.Body]) -> None:
    """One line each."""
    if not agents:
        say("no identities: only this ledger's own user and root may use it")
        return
    colours = ["red" if _is_revoked(one) else "" for one in agents]
    say_columns(_TITLES, [_row(one) for one in agents], right=_NUMBERS, colours=colours)


def _row(agent: api.Body) -> tuple[str, ...]:
    return (
        agent["agent"],
        agent["role"],
        name_of(agent["priority"]),
        _user(agent),
        str(len(agent["sessions"])),
        _ago(agent["used_ago_s"]),
        _token(agent),
        agent["revoked_by"] or agent["rotated_by"] or agent["added_by"],
    )


def _is_revoked(agent: api.Body) -> bool:
    return agent["revoked_ago_s"] is not None


def _user(agent: api.Body) -> str:
    if agent["uid"] is None:
        return "-"
    return str(agent["user"] or agent["uid"])


def _ago(ago_s: float | None) -> str:
    return "never" if ago_s is None else f"{in_words(max(0.0, ago_s))} ago"


def _token(agent: api.Body) -> str:
    """What befell its token last."""
    if _is_revoked(agent):
        return f"revoked {_ago(agent['revoked_ago_s'])}"
    if agent["rotated_ago_s"] is None:
        return f"issued {_ago(agent['added_ago_s'])}"
    left_s = agent["former_token_good_for_s"]
    former = f", former good for {in_words(left_s)}" if left_s is not None else ""
    return f"rotated {_ago(agent['rotated_ago_s'])}{former}"
