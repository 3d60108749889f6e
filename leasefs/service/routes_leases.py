"""/v1/leases and what belongs to them: claim, look, wait, release, revoke, the queue, who holds a path."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from leasefs.core import views
from leasefs.core.answers import LeaseAnswer
from leasefs.core.commands import RevokeLease
from leasefs.core.errors import LeasefsError
from leasefs.core.ledger import Decision
from leasefs.core.paths import parse_path
from leasefs.service.context import Ledger, claim_status
from leasefs.service.errors_http import error_body, status_of
from leasefs.service.examples import CLAIM, ENDED, GRANTED, WAITING
from leasefs.service.exchange import Answer, Call, json_answer, unless_disconnected
from leasefs.service.replies import BatchAnswer, BatchItem, Leases, Waiters
from leasefs.service.requests import (
    BatchBody,
    Body,
    ClaimBody,
    ClaimOp,
    Query,
    ReleaseQuery,
    RevokeBody,
    TerritoryQuery,
    WaitQuery,
    WhoQuery,
)
from leasefs.service.routes import BATCH_BODY_BYTES, Auth, Route

if TYPE_CHECKING:
    from leasefs.core.state import State


async def claim(ledger: Ledger, call: Call, body: ClaimBody, query: Query) -> Answer:
    """Claim."""
    decision = await ledger.submit(body.command(call.caller.id))
    if decision.error is not None:
        raise decision.error
    return json_answer(claim_status(decision.answer), decision.answer)


async def release(ledger: Ledger, call: Call, body: Body, query: ReleaseQuery) -> Answer:
    """Give back, or leave the queue."""
    return await ledger.carry_out(query.command(call.caller.id, call.params["lease"]))


async def revoke(ledger: Ledger, call: Call, body: RevokeBody, query: Query) -> Answer:
    """End somebody else's lease."""
    operator = call.principal.acting(body.by)
    return await ledger.carry_out(RevokeLease(operator, call.params["lease"]))


async def batch(ledger: Ledger, call: Call, body: BatchBody, query: Query) -> Answer:
    """Decide many requests; no await comes between them, so one commit holds them all."""
    submitted = [ledger.submit(request.command(call.caller.id)) for request in body.requests]
    outcomes = await asyncio.gather(*submitted, return_exceptions=True)
    items = [
        _batch_item(outcome, claims=isinstance(request, ClaimOp))
        for request, outcome in zip(body.requests, outcomes, strict=True)
    ]
    return json_answer(200, BatchAnswer(items))


def _batch_item(outcome: Decision | BaseException, *, claims: bool) -> BatchItem:
    error = outcome.error if isinstance(outcome, Decision) else outcome
    if isinstance(error, LeasefsError):
        return BatchItem(status_of(error), error_body(error))
    if not isinstance(outcome, Decision):
        raise outcome
    return BatchItem(claim_status(outcome.answer) if claims else 200, outcome.answer)


async def one_lease(ledger: Ledger, call: Call, body: Body, query: WaitQuery) -> Answer:
    """What became of a claim; held back while it waits."""
    lease_id = call.params["lease"]

    def waits_no_more(state: State) -> bool:
        return lease_id not in state.waiters

    if query.wait_s and not waits_no_more(ledger.state):
        with ledger.limiter.follow(call):
            waiting = ledger.hub.until(lease_id, waits_no_more, query.wait_s)
            await unless_disconnected(call.receive, waiting)
    return json_answer(200, views.lease_answer(ledger.state, lease_id, ledger.now_s()))


async def list_leases(ledger: Ledger, call: Call, body: Body, query: TerritoryQuery) -> Answer:
    """What is held."""
    return json_answer(200, Leases(views.leases(ledger.state, query.territory, ledger.now_s())))


async def list_waiters(ledger: Ledger, call: Call, body: Body, query: TerritoryQuery) -> Answer:
    """What waits."""
    return json_answer(200, Waiters(views.waiters(ledger.state, query.territory, ledger.now_s())))


async def who(ledger: Ledger, call: Call, body: Body, query: WhoQuery) -> Answer:
    """Who holds or wants a path."""
    path = parse_path(query.path)
    found = views.over_path(ledger.state, query.territory, path, ledger.now_s())
    return json_answer(200, Leases(found))


_WRITING = ("session-ended", "denied", "unavailable")

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "POST",
        "/v1/leases",
        claim,
        "Claim a lease: all of the globs or none",
        {201: LeaseAnswer, 202: LeaseAnswer, 200: LeaseAnswer},
        auth=Auth.SESSION,
        body=ClaimBody,
        refusals=(
            "invalid",
            "bad-pattern",
            "bad-ttl",
            "key-reused",
            "unknown-lease",
            "conflict",
            "over-cap",
            "deadlock",
            *_WRITING,
        ),
        example=CLAIM,
        example_answers={201: GRANTED, 202: WAITING, 200: ENDED},
    ),
    Route(
        "GET",
        "/v1/leases",
        list_leases,
        "List what is held",
        {200: Leases},
        query=TerritoryQuery,
        refusals=("invalid",),
        example_answers={200: {"leases": [GRANTED]}},
    ),
    Route(
        "GET",
        "/v1/leases/{lease}",
        one_lease,
        "One lease or waiting claim; with wait_s, answered when it stops waiting",
        {200: LeaseAnswer},
        query=WaitQuery,
        refusals=("invalid",),
        example_answers={200: WAITING},
    ),
    Route(
        "DELETE",
        "/v1/leases/{lease}",
        release,
        "Give a lease back, unless work under it would be left unseen; or withdraw a waiting claim",
        {200: LeaseAnswer},
        auth=Auth.SESSION,
        query=ReleaseQuery,
        refusals=("invalid", "key-reused", "unknown-lease", "not-holder", "dirty", *_WRITING),
        example_answers={200: ENDED},
    ),
    Route(
        "POST",
        "/v1/leases/{lease}/revoke",
        revoke,
        "As operator, end somebody's lease: never renewed again, free once its holder drops it or it expires",
        {200: LeaseAnswer},
        auth=Auth.OPERATOR,
        body=RevokeBody,
        refusals=("invalid", "unknown-lease", "unavailable"),
        example={"by": "release manager"},
        example_answers={200: {**GRANTED, "state": "revoked"}},
    ),
    Route(
        "POST",
        "/v1/batch",
        batch,
        "Many claims and releases, each decided on its own, durable in one commit",
        {200: BatchAnswer},
        auth=Auth.SESSION,
        body=BatchBody,
        body_limit_bytes=BATCH_BODY_BYTES,
        refusals=("invalid", *_WRITING),
        example={
            "requests": [
                {"op": "claim", **CLAIM},
                {"op": "release", "lease": "L42", "key": "17c4"},
            ]
        },
        example_answers={
            200: {"answers": [{"status": 201, "body": GRANTED}, {"status": 200, "body": ENDED}]}
        },
    ),
    Route(
        "GET",
        "/v1/queue",
        list_waiters,
        "List what waits, in the order of service",
        {200: Waiters},
        query=TerritoryQuery,
        refusals=("invalid",),
        example_answers={200: {"waiters": [WAITING]}},
    ),
    Route(
        "GET",
        "/v1/who",
        who,
        "Who holds a path, then who waits for it",
        {200: Leases},
        query=WhoQuery,
        refusals=("invalid", "bad-path"),
        example_answers={200: {"leases": [GRANTED, WAITING]}},
    ),
)
