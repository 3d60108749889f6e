"""A ledger that answers from a list, and answers to put into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leasefs.client import api, blocking
    from leasefs.client.sse import StreamEvent

LEASE = {
    "lease": "L7",
    "state": "granted",
    "agent": "ada",
    "harness": "shell",
    "session": "S-ada",
    "territory": "T",
    "globs": ["src/**"],
    "mode": "exclusive",
    "ttl_s": 1800.0,
    "priority": 0,
    "token": 7,
    "expires_in_s": 1700.0,
    "held_for_s": 100.0,
    "kept_by": ["41 vim src/x.py"],
    "waiting_for_s": None,
    "position": None,
    "eta_s": None,
    "waits_for": [],
    "note": "",
}
FRESH = {**LEASE, "held_for_s": 0.0}
OTHER = {**LEASE, "lease": "L3", "agent": "bo", "session": "S-bo", "globs": ["docs/**"]}
WAITING = {
    **LEASE,
    "lease": "L9",
    "state": "waiting",
    "token": 0,
    "expires_in_s": None,
    "waiting_for_s": 12.0,
    "position": 2,
    "eta_s": 150.0,
    "waits_for": [{"id": "L3", "agent": "bo", "kind": "lease"}],
}
REFUSAL = {
    "time": "2026-01-01T00:00:00.000+00:00",
    "pid": 41,
    "program": "sed",
    "operation": "create",
    "path": "docs/a.md",
    "errno": "EACCES",
    "code": "NOT_LEASED",
    "reason": "no lease of this mount covers the path",
    "lease": None,
    "next": "claim it first",
}
TRUSTED = {
    "id": "L7",
    "globs": ["src/**"],
    "mode": "exclusive",
    "token": 7,
    "ttl_s": 1800.0,
    "trusted_for_s": 1690.0,
    "kept_by": ["41 vim src/x.py"],
}


@dataclass
class FakeLedger:
    """Answers each path from `answers` (a list is used up one by one), and keeps the calls."""

    answers: dict[str, Any]
    calls: list[api.Call] = field(default_factory=list)
    streams: dict[str, list[StreamEvent]] = field(default_factory=dict)

    def send(self, _link: blocking.Link, call: api.Call) -> dict[str, Any]:
        """Stand in for `Link.send`."""
        self.calls.append(call)
        key = f"{call.method} {call.path.partition('?')[0]}"
        answer = self.answers[key]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        body: dict[str, Any] = answer
        return body

    def sent(self, method: str, path: str) -> list[api.Call]:
        """The calls of this method and path."""
        return [c for c in self.calls if c.method == method and c.path.partition("?")[0] == path]

    def claimed(self) -> dict[str, Any]:
        """The body of the one claim that was made."""
        (call,) = self.sent("POST", "/v1/leases")
        assert call.body is not None
        return call.body
