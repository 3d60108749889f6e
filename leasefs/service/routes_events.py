"""/v1/events: the history, page by page or as a stream that goes on."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from leasefs.core.errors import InvalidRequest
from leasefs.core.events import AnyEvent
from leasefs.service.auth import is_still_known
from leasefs.service.exchange import Answer, Call, EventStream
from leasefs.service.replies import EventsPage
from leasefs.service.requests import Body, EventsQuery
from leasefs.service.routes import Route
from leasefs.service.stream import Follower, StreamClosed, Wanted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from leasefs.service.context import Ledger
    from leasefs.service.entries import Record

KEEP_ALIVE_S = 15.0
TYPES = frozenset(str(event.__struct_config__.tag) for event in get_args(AnyEvent))


async def events(
    ledger: Ledger, call: Call, body: Body, query: EventsQuery
) -> Answer | EventStream:
    """A page, or the stream if it was asked for."""
    wanted = _wanted(query)
    if query.follow or b"text/event-stream" in (call.header(b"accept") or b""):
        after_seq = _resume_point(ledger, call, query)
        return EventStream(_followed(ledger, wanted, after_seq, call))
    found, next_seq = await ledger.hub.find(wanted, query.after or 0, query.limit)
    return _page(found, ledger.state.seq, next_seq, ledger.hub.base)


def _wanted(query: EventsQuery) -> Wanted:
    types = frozenset(query.types.split(",")) if query.types else frozenset()
    if not types <= TYPES:
        unknown = ", ".join(sorted(types - TYPES))[:200]
        raise InvalidRequest(f"no such event: {unknown}; there are {', '.join(sorted(TYPES))}")
    return Wanted(query.territory, query.session, types)


def _resume_point(ledger: Ledger, call: Call, query: EventsQuery) -> int:
    """Last-Event-ID wins: a browser's EventSource repeats the old URL when it reconnects."""
    after_seq = query.after or 0
    last_event_id = call.header(b"last-event-id")
    if last_event_id:
        if not last_event_id.isdigit() or len(last_event_id) > 18:
            raise InvalidRequest("Last-Event-ID is not a sequence number")
        after_seq = int(last_event_id)
    if after_seq > ledger.state.seq:
        raise InvalidRequest(
            f"there is no event {after_seq}, the log ends at {ledger.state.seq}: it is not the log you "
            "followed before; start again from 0",
            head=ledger.state.seq,
        )
    return after_seq


def _page(found: list[Record], head: int, next_seq: int, base: int) -> Answer:
    items = b",".join(record.with_seq() for record in found)
    body = b'{"events":[%b],"head":%d,"next":%d,"base":%d}' % (items, head, next_seq, base)
    return Answer(200, body)


async def _followed(
    ledger: Ledger, wanted: Wanted, after_seq: int, call: Call
) -> AsyncGenerator[bytes, None]:
    follower = ledger.hub.follow(wanted, after_seq, partial(is_still_known, call, ledger))
    try:
        yield b": leasefs events\n\n"
        while True:
            yield await _next_chunk(follower)
    except StreamClosed:
        return
    finally:
        ledger.hub.leave(follower)


async def _next_chunk(follower: Follower) -> bytes:
    """The next events, or after a while a sign of life.

    It moves the client's Last-Event-ID on, so that a follower of rare events does not make us search the
    whole log when it comes back.
    """
    try:
        async with asyncio.timeout(KEEP_ALIVE_S):
            return b"".join(map(_as_sse, await follower.next()))
    except TimeoutError:
        return b": keep-alive\nid: %d\n\n" % follower.position


def _as_sse(record: Record) -> bytes:
    # JSON as we write it has no line breaks, so one data line is enough.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (
        record.seq,
        record.type.encode("ascii"),
        record.with_seq(),
    )


_ITEM = {
    "seq": 43,
    "at_s": 1767225600.25,
    "wall_s": 1767225600.25,
    "territory": "github.com/octo/widgets",
    "session": "s-4f1c2a9be0d74c31",
    "event": {
        "type": "released",
        "lease": "L42",
        "agent": "agent-07",
        "token": 42,
        "reason": "released",
        "key": "17c4",
        "request": "c0de",
    },
}

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "GET",
        "/v1/events",
        events,
        "The history; with Accept: text/event-stream or follow=1 a stream that goes on from `after` or "
        "Last-Event-ID",
        {200: EventsPage},
        query=EventsQuery,
        refusals=("invalid", "unavailable"),
        example_answers={200: {"events": [_ITEM], "head": 51, "next": 43, "base": 0}},
        streams=True,
    ),
)
