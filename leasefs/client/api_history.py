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
