"""The verbs about the log's past, as in `leasefs.client.api`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client.api import REPLAY_WITHIN_S, Call, query

if TYPE_CHECKING:
    from collections.abc import Iterable


def extent(wall_s: float | None = None) -> Call:
    """How far the log reaches: `{base, states_from, head, size_bytes}`; with `wall_s` also `at`, the last event then."""
    return Call("GET", "/v1/history" + query(wall_s=None if wall_s is None else f"{wall_s:.6f}"))


def past(
    seq: int, *, territory: str | None = None, parts: Iterable[str] = (), **wanted: str | None
) -> Call:
    """What held after event `seq` (PastState); `wanted` are `agent`, `lease` and `state` of intents."""
    asked = query(territory=territory, parts=",".join(parts) or None, **wanted)
    return Call("GET", f"/v1/history/{seq}" + asked, patience_s=REPLAY_WITHIN_S)


def compact(
    *, keep_events: int | None = None, keep_s: float | None = None, keep_bytes: int | None = None
) -> Call:
    """As operator, begin to drop what need not be kept: `{base, target}`; `extent` says how far that is."""
    wanted = {"keep_events": keep_events, "keep_s": keep_s, "keep_bytes": keep_bytes}
    body = {name: value for name, value in wanted.items() if value is not None}
    return Call("POST", "/v1/compactions", body, patience_s=REPLAY_WITHIN_S)
