"""Which HTTP status each refusal gets: the one table, and the body that goes with it (RFC 9110)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from leasefs.core.errors import OverLimit
from leasefs.service.exchange import Answer, HttpProblem, json_answer

if TYPE_CHECKING:
    from leasefs.core.errors import LeasefsError

STATUS = {
    "invalid": 400,
    "protocol": 400,
    "bad-path": 400,
    "bad-pattern": 400,
    "bad-ttl": 400,
    "key-reused": 400,
    "session-ended": 401,  # the client shall authenticate anew: open a session
    "denied": 403,
    "not-holder": 403,
    "unknown-lease": 404,
    "conflict": 409,
    "over-cap": 409,
    "not-contained": 400,
    "deadlock": 409,
    "dirty": 409,
    "checks-failed": 409,
    "agent-busy": 409,
    "lost": 410,
    "unavailable": 503,
    "over-limit": 429,
    # Raised by clients and mounts only; here so that every code has its line.
    "timed-out": 408,
    "bad-configuration": 500,
    "mount": 500,
    "unexpected": 500,
}


def error_body(error: LeasefsError | HttpProblem) -> dict[str, object]:
    """`{"error": {code, message, details}}`."""
    return {"error": {"code": error.code, "message": error.message, "details": error.details}}


def status_of(error: LeasefsError | HttpProblem) -> int:
    """The status to answer with."""
    return error.status if isinstance(error, HttpProblem) else STATUS[error.code]


def error_answer(error: LeasefsError | HttpProblem) -> Answer:
    """The whole answer."""
    answer = json_answer(status_of(error), error_body(error))
    if isinstance(error, HttpProblem):
        answer.headers.extend(error.headers)
    elif isinstance(error, OverLimit):
        seconds = math.ceil(float(str(error.details["retry_after_s"])))
        answer.headers.append((b"retry-after", b"%d" % max(1, seconds)))
    return answer
