"""/v1/history: how far back the log reaches, and what held at any number of it."""

from __future__ import annotations

import asyncio
import logging
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from leasefs.client.log_events import Event, note
from leasefs.core import views
from leasefs.core.errors import InvalidRequest
from leasefs.service.exchange import Answer, Call, json_answer, unless_disconnected
from leasefs.service.replies_history import Compaction, HistoryExtent, PastState
from leasefs.service.requests_history import CompactionBody, HistoryQuery, PastQuery
from leasefs.service.routes import Auth, Route

if TYPE_CHECKING:
    from leasefs.service.context import Ledger
    from leasefs.service.history import Moment
    from leasefs.service.requests import Body, Query

DIGITS = 18
_log = logging.getLogger(__name__)


async def extent(ledger: Ledger, call: Call, body: Body, query: HistoryQuery) -> Answer:
    """From where to where."""
    found = await ledger.history.extent()
    at = None if query.wall_s is None else await ledger.history.seq_at(query.wall_s)
    return json_answer(
        200, HistoryExtent(found.base, found.states_from, found.head, found.size_bytes, at)
    )


async def past(ledger: Ledger, call: Call, body: Body, query: PastQuery) -> Answer:
    """What held then."""
    asked = call.params["seq"]
    if not asked.isascii() or not asked.isdigit() or len(asked) > DIGITS:
        raise InvalidRequest(f"{asked[:40]!r} is not a sequence number")
    moment = await unless_disconnected(call.receive, ledger.history.at(int(asked)))
    return json_answer(200, await asyncio.to_thread(_told, moment, query))


async def compact(ledger: Ledger, call: Call, body: CompactionBody, query: Query) -> Answer:
    """Drop old events. What was dropped cannot say who did it, so the system's log does."""
    base, target = await ledger.compactor.begin(body.keep(), ledger.writer.wall_s())
    if target > base:
        by = call.principal.name
        words = f"{by} had the events up to {target} dropped"
        note(_log, Event.OPERATED, words, by=by, what="compact", upto_seq=target)
    return json_answer(202, Compaction(base, target))


def _told(moment: Moment, query: PastQuery) -> PastState:
    parts, state, now_s, territory = query.wanted(), moment.state, moment.at_s, query.territory
    found = list(views.intents(state, query.intents())) if "intents" in parts else []
    oldest = nsmallest(query.limit, found, key=lambda one: (one.first_wall_s, one.path, one.lease))
    return PastState(
        seq=moment.seq,
        at_s=moment.at_s,
        wall_s=moment.wall_s,
        sessions=views.sessions(state, territory, now_s) if "sessions" in parts else [],
        leases=views.leases(state, territory, now_s) if "leases" in parts else [],
        waiters=views.waiters(state, territory, now_s) if "waiters" in parts else [],
        intents=oldest,
        total=len(found),
    )


_EXTENT = {"base": 0, "states_from": 0, "head": 51, "size_bytes": 81920, "at": 43}
_PAST = {
    "seq": 43,
    "at_s": 1767225600.25,
    "wall_s": 1767225600.25,
    "sessions": [],
    "leases": [],
    "waiters": [],
    "intents": [],
    "total": 0,
}

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "GET",
        "/v1/history",
        extent,
        "How far back the log reaches and how big it is; with wall_s, which event was the last one at that time",
        {200: HistoryExtent},
        auth=Auth.PEER,
        query=HistoryQuery,
        refusals=("invalid", "unavailable"),
        example_answers={200: _EXTENT},
    ),
    Route(
        "GET",
        "/v1/history/{seq}",
        past,
        "What held after event `seq`: sessions, leases, queue and intents as the ledger knew them then",
        {200: PastState},
        auth=Auth.PEER,
        query=PastQuery,
        refusals=("invalid", "unavailable"),
        example_answers={200: _PAST},
    ),
    Route(
        "POST",
        "/v1/compactions",
        compact,
        "As operator, begin to drop old events that need not be kept; GET /v1/history says how far that is",
        {202: Compaction},
        auth=Auth.OPERATOR,
        body=CompactionBody,
        refusals=("invalid", "unavailable"),
        example={"keep_events": 1000000},
        example_answers={202: {"base": 0, "target": 400000}},
    ),
)
