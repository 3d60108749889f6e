"""/v1/sessions: open, end, list, heartbeat; and what a mount reports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from leasefs.core import views
from leasefs.core.answers import Done, HeartbeatAnswer, SessionAnswer
from leasefs.core.commands import EndSession, ReportRefusals
from leasefs.core.errors import Denied
from leasefs.service.auth import secret_hash
from leasefs.service.exchange import Answer, Call, json_answer
from leasefs.service.liveness import known_dead
from leasefs.service.replies import Sessions
from leasefs.service.requests import (
    Body,
    HeartbeatBody,
    OpenBody,
    Query,
    RefusalsBody,
    TerritoryQuery,
)
from leasefs.service.routes import Auth, Route

if TYPE_CHECKING:
    from leasefs.service.context import Ledger


async def open_session(ledger: Ledger, call: Call, body: OpenBody, query: Query) -> Answer:
    """Open it, and tell the rules if the agent's former session has no process any more."""
    former = ledger.state.by_agent.get((body.territory, body.agent))
    dead = former is not None and await asyncio.to_thread(
        known_dead, ledger.state.sessions[former].process
    )
    command = body.command(
        secret_hash(body.secret), predecessor_dead=dead, identity=call.principal.identity
    )
    return await ledger.carry_out(command, 201)


async def end_session(ledger: Ledger, call: Call, body: Body, query: Query) -> Answer:
    """End the caller's own session."""
    _require_own(call)
    return await ledger.carry_out(EndSession(call.caller.id))


async def heartbeat(ledger: Ledger, call: Call, body: HeartbeatBody, query: Query) -> Answer:
    """Renew."""
    _require_own(call)
    return await ledger.carry_out(body.command(call.caller.id))


async def report_refusals(ledger: Ledger, call: Call, body: RefusalsBody, query: Query) -> Answer:
    """Write down what a mount refused."""
    refusals = tuple(item.refusal() for item in body.refusals)
    return await ledger.carry_out(ReportRefusals(call.caller.id, refusals))


async def list_sessions(ledger: Ledger, call: Call, body: Body, query: TerritoryQuery) -> Answer:
    """All of them."""
    found = views.sessions(ledger.state, query.territory, ledger.now_s())
    return json_answer(200, Sessions(found))


def _require_own(call: Call) -> None:
    if call.params["session"] != call.caller.id:
        raise Denied(f"session {call.caller.id} may not act for session {call.params['session']}")


_OPEN = {
    "session": "s-4f1c2a9be0d74c31",
    "secret": "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00",
    "agent": "agent-07",
    "harness": "claude",
    "territory": "github.com/octo/widgets",
    "kind": "mount",
    "host": "build-3",
    "pid": 4711,
    "process": "b8b3c1f2-6d0e-4a53-9d7e-0f2a6c1e5d40:4026531836:4711:918273",
    "replace": False,
}
_SESSION = {
    **{
        name: _OPEN[name]
        for name in ("session", "agent", "harness", "territory", "kind", "host", "pid")
    },
    "live": True,
    "open_for_s": 12.5,
    "seen_ago_s": 3.2,
}
_BEAT = {"lease": "L42", "token": 43, "kept_by": ["4802 pytest packages/core/x.py"]}
_REFUSAL = {
    "path": "README.md",
    "op": "open",
    "reason": "not-leased",
    "errno": "EACCES",
    "pid": 4802,
    "program": "sed",
    "wall_s": 1767225600.0,
}

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "POST",
        "/v1/sessions",
        open_session,
        "Open a session; sent twice with the same id and secret, it opens one",
        {201: SessionAnswer},
        auth=Auth.AGENT,
        body=OpenBody,
        refusals=("invalid", "denied", "agent-busy", "unavailable"),
        example=_OPEN,
        example_answers={201: _SESSION},
    ),
    Route(
        "GET",
        "/v1/sessions",
        list_sessions,
        "List sessions",
        {200: Sessions},
        query=TerritoryQuery,
        refusals=("invalid",),
        example_answers={200: {"sessions": [_SESSION]}},
    ),
    Route(
        "DELETE",
        "/v1/sessions/{session}",
        end_session,
        "End the session; all that it holds is free at once",
        {200: Done},
        auth=Auth.SESSION,
        refusals=("unavailable",),
        example_answers={200: {"ok": True}},
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/heartbeat",
        heartbeat,
        "The session lives: renew leases that are in use",
        {200: HeartbeatAnswer},
        auth=Auth.SESSION,
        beats=True,
        body=HeartbeatBody,
        refusals=("invalid", "unavailable"),
        example={"renew": [_BEAT], "dropped": []},
        example_answers={
            200: {
                "renewed": [{"lease": "L42", "token": 43, "ttl_s": 1800.0}],
                "lost": [{"lease": "L17", "reason": "lapsed, then taken by agent-09"}],
            }
        },
    ),
    Route(
        "POST",
        "/v1/refusals",
        report_refusals,
        "Report changes that a mount did not let through",
        {200: Done},
        auth=Auth.SESSION,
        body=RefusalsBody,
        refusals=("invalid", "unavailable"),
        example={"refusals": [_REFUSAL]},
        example_answers={200: {"ok": True}},
    ),
)
