"""What to do about 429 (RFC 6585): the ledger wants to be asked more slowly. Waiting is part of asking."""

from __future__ import annotations

import json
import math

TOO_MANY_REQUESTS = 429


def wait_s(status: int, body: bytes, left_s: float) -> float | None:
    """How long to wait before asking again; None if this is no answer to wait upon, or it would take longer than `left_s`."""
    if status != TOO_MANY_REQUESTS:
        return None
    try:
        seconds = float(json.loads(body)["error"]["details"]["retry_after_s"])
    except (ValueError, KeyError, TypeError):
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds < left_s else None
