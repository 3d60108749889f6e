"""What this server is: status, health, and its own description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs import __version__
from leasefs.core import protocol
from leasefs.core.exposition import CONTENT_TYPE
from leasefs.core.views import is_live
from leasefs.service.exchange import Answer, Call, HttpProblem, json_answer
from leasefs.service.replies import Status
from leasefs.service.routes import Auth, Route

if TYPE_CHECKING:
    from leasefs.service.context import Ledger
    from leasefs.service.requests import Body, Query


async def status(ledger: Ledger, call: Call, body: Body, query: Query) -> Answer:
    """Counts."""
    state, now_s = ledger.state, ledger.now_s()
    territories = {session.territory for session in state.sessions.values()}
    territories.update(lease.claim.territory for lease in state.leases.values())
    dirty, unlanded = state.uncommitted.counts()
    found = Status(
        version=__version__,
        protocol=protocol.ours(protocol.LEDGER).protocol,
        seq=state.seq,
        started_ago_s=now_s - ledger.started_at_s,
        sessions=len(state.sessions),
        live_sessions=sum(is_live(session, now_s) for session in state.sessions.values()),
        leases=len(state.leases),
        lapsed=sum(lease.lapsed(now_s) for lease in state.leases.values()),
        waiters=len(state.waiters),
        dirty=dirty,
        unlanded=unlanded,
        rescues=sum(map(len, state.rescues.values())),
        store=ledger.store,
        territories=sorted(territories),
        base=ledger.hub.base,
        closed_for_s=max(0.0, state.closed_until_s - now_s),
    )
    return json_answer(200, found)


async def healthz(ledger: Ledger, call: Call, body: Body, query: Query) -> Answer:
    """Whether the ledger can do what it is for."""
    problem = await ledger.health.problem()
    if problem:
        # Over TCP anybody may ask, and where the log lies is not theirs to know.
        told = problem if call.connection.uid is not None else "the log cannot be appended to"
        raise HttpProblem(503, "unavailable", told)
    return Answer(200, b"ok\n", [(b"content-type", b"text/plain; charset=utf-8")])


async def metrics(ledger: Ledger, call: Call, body: Body, query: Query) -> Answer:
    """Numbers for a monitor."""
    text = ledger.meters.text(ledger.writer).encode()
    return Answer(200, text, [(b"content-type", CONTENT_TYPE.encode("ascii"))])


_STATUS = {
    "version": "0.1.0",
    "protocol": "1.0",
    "seq": 51,
    "started_ago_s": 3600.0,
    "sessions": 3,
    "live_sessions": 2,
    "leases": 4,
    "lapsed": 1,
    "waiters": 1,
    "dirty": 17,
    "unlanded": 40,
    "rescues": 2,
    "store": "sqlite:/home/user/.local/state/leasefs/ledger/ledger.sqlite3",
    "territories": ["github.com/octo/widgets"],
    "base": 0,
    "closed_for_s": 0.0,
}

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "GET",
        "/v1/status",
        status,
        "What this ledger is and how much it holds",
        {200: Status},
        example_answers={200: _STATUS},
    ),
    Route(
        "GET",
        "/healthz",
        healthz,
        "Answers `ok` while requests are taken and the log can be written to, else 503 and why not",
        {200: None},
        auth=Auth.ANYBODY,
        refusals=("unavailable",),
    ),
    Route("GET", "/metrics", metrics, "Numbers for Prometheus, in its text format", {200: None}),
)
