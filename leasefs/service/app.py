"""The ASGI application: from a request to a route, and from whatever happens to an answer.

Every failure has its answer here: a refusal by its code's status, a wrong request 4xx, a client that left none.
500 means a bug of ours; it is logged with its trace.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from leasefs.core.errors import Denied, LeasefsError, LedgerUnavailable
from leasefs.service import (
    openapi,
    routes_about,
    routes_agents,
    routes_events,
    routes_fresh,
    routes_history,
    routes_leases,
    routes_operating,
    routes_scheduling,
    routes_sessions,
    routes_trees,
)
from leasefs.service.auth import admit
from leasefs.service.decode import body_of, query_of
from leasefs.service.entries import UnknownEvent
from leasefs.service.errors_http import error_answer
from leasefs.service.exchange import (
    Answer,
    Call,
    Connection,
    Disconnected,
    EventStream,
    HttpProblem,
    Receive,
    Scope,
    Send,
    read_body,
    send_answer,
    send_stream,
)
from leasefs.service.requests import Body, Query
from leasefs.service.routes import Route, Router
from leasefs.service.speaking import require_understanding
from leasefs.store.errors import StoreError

if TYPE_CHECKING:
    from leasefs.service.context import Ledger

STALL_S = 30.0
"""How long a follower may take nothing before it is cut off."""

DESCRIBED: tuple[Route[Any, Any], ...] = (
    *routes_sessions.ROUTES,
    *routes_leases.ROUTES,
    *routes_scheduling.ROUTES,
    *routes_operating.ROUTES,
    *routes_trees.ROUTES,
    *routes_events.ROUTES,
    *routes_history.ROUTES,
    *routes_fresh.ROUTES,
    *routes_agents.ROUTES,
    *routes_about.ROUTES,
)
ROUTES = (*DESCRIBED, openapi.route(DESCRIBED))

_NO_BODY, _NO_QUERY = Body(), Query()
_log = logging.getLogger(__name__)


class LedgerApp:
    """ASGI 3 (https://asgi.readthedocs.io/en/stable/specs/www.html).

    `scope["state"]["connection"]` must be the `Connection` that the request came by.
    """

    def __init__(self, ledger: Ledger, *, stall_s: float = STALL_S) -> None:
        self._ledger = ledger
        self._meters = ledger.meters.requests
        self._router = Router(ROUTES)
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        call = _call_of(scope, receive)
        meters, began_s = self._meters, time.monotonic()
        try:
            answer = await self._answer_or_refusal(scope, call)
        except Disconnected:
            meters.given_up(scope["method"], call.route)
            return
        if isinstance(answer, EventStream):
            with answer.place, meters.following(scope["method"], call.route):
                await self._follow(send, call, answer)
            return
        took_s = time.monotonic() - began_s
        meters.answered(scope["method"], call.route, answer.status, took_s)
        await send_answer(send, answer)

    async def _answer_or_refusal(self, scope: Scope, call: Call) -> Answer | EventStream:
        """Whatever happens has an answer. Raises Disconnected: there is nobody to answer."""
        try:
            return await self._answer(scope, call)
        except Disconnected:
            raise
        except (LeasefsError, HttpProblem) as error:
            return error_answer(error)
        except (StoreError, UnknownEvent) as error:
            _log.error("the store cannot be read: %s", error)
            return error_answer(LedgerUnavailable(f"the ledger cannot read its log: {error}"))
        except Exception:  # noqa: BLE001 -- logged; one request fails, not the server
            _log.exception("answering %s %s failed", scope["method"], scope["path"])
            return error_answer(LeasefsError("the ledger failed; its log says how"))

    async def _follow(self, send: Send, call: Call, stream: EventStream) -> None:
        """Send events until somebody has enough. What fails on the way can only be said by breaking off."""
        try:
            await send_stream(send, call, stream, self._stall_s)
        except Disconnected:
            return
        except (StoreError, UnknownEvent) as error:
            _log.error("the store cannot be read: %s", error)
            call.connection.abort()

    async def _let_in(self, route: Route[Any, Any], call: Call) -> None:
        """Find out who asks, whether they may, and whether it is their turn."""
        limiter = self._ledger.limiter
        try:
            admit(route.auth, call, self._ledger)
        except (HttpProblem, Denied):
            await limiter.strange(call.connection)
            raise
        await limiter.admit(call, heartbeat=route.beats)

    async def _answer(self, scope: Scope, call: Call) -> Answer | EventStream:
        require_understanding(call, scope["path"])
        route, call.params = self._router.find(scope["method"], scope["path"])
        call.route = route.path
        known = self._ledger.state.identities
        await self._let_in(route, call)
        raw = await read_body(call.receive, route.body_limit_bytes)
        if self._ledger.state.identities is not known:
            # A body may take half a minute to come, and whoever sends it may have been revoked meanwhile.
            admit(route.auth, call, self._ledger)
        body = _NO_BODY if route.body is None else body_of(route.body, raw)
        if route.body is None and raw:
            raise HttpProblem(400, "invalid", "this request takes no body")
        query = (
            query_of(route.query or Query, scope["query_string"])
            if _asks(scope, route)
            else _NO_QUERY
        )
        answer = await route.handler(self._ledger, call, body, query)
        if isinstance(answer, EventStream):
            answer.place = self._ledger.limiter.follow(call)
        return answer


def _asks(scope: Scope, route: Route[Any, Any]) -> bool:
    return route.query is not None or bool(scope["query_string"])


def _call_of(scope: Scope, receive: Receive) -> Call:
    connection: Connection = scope["state"]["connection"]
    return Call({}, connection, scope["headers"], receive)
