"""/v1/regions, and what sessions ask of leases beyond holding them: downgrade, delegate, recall, more time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.answers import LeaseAnswer, RegionsAnswer
from leasefs.service.examples import CLAIM, GRANTED, RECALLED
from leasefs.service.requests_scheduling import (
    DelegateBody,
    DowngradeBody,
    MoreTimeBody,
    RecallBody,
    RegionsBody,
)
from leasefs.service.routes import BATCH_BODY_BYTES, Auth, Route

if TYPE_CHECKING:
    from leasefs.service.context import Ledger
    from leasefs.service.exchange import Answer, Call
    from leasefs.service.requests import Query


async def claim_regions(ledger: Ledger, call: Call, body: RegionsBody, query: Query) -> Answer:
    """Claim several at once."""
    return await ledger.carry_out(body.command(call.caller.id), 201)


async def downgrade(ledger: Ledger, call: Call, body: DowngradeBody, query: Query) -> Answer:
    """Share it."""
    return await ledger.carry_out(body.command(call.caller.id, call.params["lease"]))


async def delegate(ledger: Ledger, call: Call, body: DelegateBody, query: Query) -> Answer:
    """Give a part of it away."""
    return await ledger.carry_out(body.command(call.caller.id, call.params["lease"]), 201)


async def recall(ledger: Ledger, call: Call, body: RecallBody, query: Query) -> Answer:
    """Ask for it back: the session of the parent's holder, or an operator."""
    if call.session is not None:
        command = body.command(call.params["lease"], session=call.session.id)
    else:
        by = call.principal.acting(body.by)
        command = body.command(call.params["lease"], by=by)
    return await ledger.carry_out(command)


async def more_time(ledger: Ledger, call: Call, body: MoreTimeBody, query: Query) -> Answer:
    """Move a recall's deadline."""
    return await ledger.carry_out(body.command(call.caller.id, call.params["lease"]))


_WRITING = ("invalid", "session-ended", "denied", "unavailable")
_OF_A_HOLDER = ("unknown-lease", "not-holder", "lost", *_WRITING)
_SECOND = {**GRANTED, "lease": "L43", "token": 44, "globs": ["docs/**"]}
_PART = {**_SECOND, "globs": ["packages/core/table/**"], "agent": "agent-31", "parent": "L42"}

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "POST",
        "/v1/regions",
        claim_regions,
        "Claim several leases that do not overlap: all of them at once or none",
        {201: RegionsAnswer},
        auth=Auth.SESSION,
        body=RegionsBody,
        body_limit_bytes=BATCH_BODY_BYTES,
        refusals=("bad-pattern", "bad-ttl", "key-reused", "conflict", "over-cap", *_WRITING),
        example={
            "key": "77ab0c21",
            "regions": [
                {"globs": CLAIM["globs"], "note": CLAIM["note"], "share": 0.04},
                {"globs": _SECOND["globs"]},
            ],
            "ttl_s": 1800.0,
        },
        example_answers={201: {"leases": [GRANTED, _SECOND]}},
    ),
    Route(
        "POST",
        "/v1/leases/{lease}/downgrade",
        downgrade,
        "Share an exclusive lease; its holder has stopped writing under it, and gets a new token",
        {200: LeaseAnswer},
        auth=Auth.SESSION,
        body=DowngradeBody,
        refusals=("key-reused", *_OF_A_HOLDER),
        example={"key": "51de"},
        example_answers={200: {**GRANTED, "mode": "shared", "token": 57}},
    ),
    Route(
        "POST",
        "/v1/leases/{lease}/delegate",
        delegate,
        "Give a part of a lease to another agent until that gives it back; its holder writes there no more",
        {201: LeaseAnswer},
        auth=Auth.SESSION,
        body=DelegateBody,
        refusals=(
            "bad-pattern",
            "bad-ttl",
            "key-reused",
            "not-contained",
            "conflict",
            "over-cap",
            "deadlock",
            "dirty",
            *_OF_A_HOLDER,
        ),
        example={
            "key": "c1f0",
            "globs": ["packages/core/table/**"],
            "to": "agent-31",
            "note": "the table's sorting, as in the plan",
        },
        example_answers={201: _PART},
    ),
    Route(
        "POST",
        "/v1/leases/{lease}/recall",
        recall,
        "As operator, or with the session that it was delegated by, have a holder yield by a deadline",
        {200: LeaseAnswer},
        auth=Auth.EITHER,
        body=RecallBody,
        refusals=("unknown-lease", "not-holder", *_WRITING),
        example={"within_s": 30.0, "reason": "the release needs it", "by": "ann"},
        example_answers={200: RECALLED},
    ),
    Route(
        "POST",
        "/v1/leases/{lease}/more-time",
        more_time,
        "The holder of a recalled lease asks for more time: once, and no more than it was given at first",
        {200: LeaseAnswer},
        auth=Auth.SESSION,
        body=MoreTimeBody,
        refusals=("key-reused", *_OF_A_HOLDER),
        example={"extra_s": 30.0, "key": "b4c2"},
        example_answers={200: RECALLED},
    ),
)
