"""Freshness: the last success of a check on a content, so that nobody runs it again on the same one.

The ledger keeps one success for each territory and key, and only compares: what the content is, and whether the check
was right, is for whoever runs it. Anybody who may speak to the ledger may record one; it lets nobody write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from immutables import Map

from leasefs.core.answers import FreshAnswer
from leasefs.core.errors import InvalidRequest
from leasefs.core.events import FreshRecorded
from leasefs.core.records import Fresh, replace

if TYPE_CHECKING:
    from leasefs.core.commands import RecordFresh
    from leasefs.core.draft import Decision, Draft
    from leasefs.core.events import Recorded
    from leasefs.core.state import State

# A territory's oldest success makes way for one under a new key.
KEYS_REMEMBERED = 512
MAX_SHOWN = 4096
_KEY = re.compile(r"[!-~](?:[ -~]{0,126}[!-~])?")
_TERRITORY = re.compile(r"[!-~][ -~]{0,511}")
_NONE: Map[str, Fresh] = Map()
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_key(key: str) -> None:
    """Raises InvalidRequest if a success cannot be kept under this key."""
    if not _KEY.fullmatch(key):
        raise InvalidRequest(
            f"bad key {key[:80]!r}: a key is 1 to 128 printable ASCII characters, the first and the last no blanks",
            field="key",
        )


def record_fresh(draft: Draft, command: RecordFresh) -> Decision:
    """Remember a success; it takes the place of the last one under its key."""
    fresh = command.fresh
    check_key(fresh.key)
    for what, value, form in (
        ("territory", fresh.territory, _TERRITORY),
        ("content", fresh.content, _DIGEST),
        ("command", fresh.command, _DIGEST),
    ):
        if not form.fullmatch(value):
            raise InvalidRequest(
                f"bad {what} {value[:80]!r}: it must match {form.pattern}", field=what
            )
    if sum(map(len, (*fresh.globs, fresh.agent, fresh.host))) > MAX_SHOWN:
        raise InvalidRequest(f"globs, agent and host have more than {MAX_SHOWN} characters")
    if fresh.files < 1 or fresh.took_s < 0:
        raise InvalidRequest("a success is about a file or more, and took no less than no time")
    recorded = replace(fresh, recorded_at_s=draft.now_s)
    draft.emit(FreshRecorded(recorded))
    return draft.done(answer(recorded, draft.now_s))


def fresh_recorded(state: State, event: FreshRecorded, recorded: Recorded) -> State:
    """The state with one more success."""
    fresh = event.fresh
    kept = state.fresh.get(fresh.territory, _NONE)
    if len(kept) >= KEYS_REMEMBERED and fresh.key not in kept:
        oldest = min(kept.values(), key=lambda one: (one.recorded_at_s, one.key))
        kept = kept.delete(oldest.key)
    kept = kept.set(fresh.key, fresh)
    return replace(state, fresh=state.fresh.set(fresh.territory, kept))


def answers(state: State, territory: str, key: str | None, now_s: float) -> list[FreshAnswer]:
    """The successes of a territory, by key; with `key`, that one if there is one."""
    kept = state.fresh.get(territory, _NONE)
    found = [kept[one] for one in sorted(kept) if key in (None, one)]
    return [answer(fresh, now_s) for fresh in found]


def answer(fresh: Fresh, now_s: float) -> FreshAnswer:
    """A success as anybody may see it."""
    return FreshAnswer(
        territory=fresh.territory,
        key=fresh.key,
        content=fresh.content,
        command=fresh.command,
        globs=fresh.globs,
        files=fresh.files,
        agent=fresh.agent,
        host=fresh.host,
        took_s=fresh.took_s,
        ago_s=now_s - fresh.recorded_at_s,
    )
