"""What operators decide for a territory: /v1/admission, /v1/freezes, and how long one lease is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core import admission, views
from leasefs.core.answers import AdmissionAnswer, Done, LeaseAnswer
from leasefs.core.commands import ReopenLedger, Unfreeze
from leasefs.service.context import Ledger, claim_status
from leasefs.service.examples import ENDED, FROZEN, GRANTED
from leasefs.service.exchange import Answer, Call, json_answer
from leasefs.service.replies import Freezes
from leasefs.service.requests import Body, Query, TerritoryQuery
from leasefs.service.requests_scheduling import (
    AdmissionBody,
    FreezeBody,
    HoldBody,
    OfTerritoryQuery,
    OperatorQuery,
    ReopenBody,
)
from leasefs.service.routes import Auth, Route

if TYPE_CHECKING:
    from leasefs.core.state import State


async def hold(ledger: Ledger, call: Call, body: HoldBody, query: Query) -> Answer:
    """Override the cap."""
    operator = call.principal.acting(body.by)
    return await ledger.carry_out(body.command(operator, call.params["lease"]))


async def show_admission(ledger: Ledger, call: Call, body: Body, query: OfTerritoryQuery) -> Answer:
    """Limits and use."""
    return json_answer(200, admission.admission_answer(ledger.state, query.territory))


async def set_admission(
    ledger: Ledger, call: Call, body: AdmissionBody, query: OfTerritoryQuery
) -> Answer:
    """Other limits."""
    operator = call.principal.acting(body.by)
    return await ledger.carry_out(body.command(operator, query.territory))


async def freeze(ledger: Ledger, call: Call, body: FreezeBody, query: Query) -> Answer:
    """Nobody writes there."""
    operator = call.principal.acting(body.by)
    decision = await ledger.writer.submit(body.command(operator))
    if decision.error is not None:
        raise decision.error
    return json_answer(claim_status(decision.answer), decision.answer)


async def unfreeze(ledger: Ledger, call: Call, body: Body, query: OperatorQuery) -> Answer:
    """Lift it."""
    operator = call.principal.acting(query.by)
    return await ledger.carry_out(Unfreeze(operator, call.params["lease"], query.key))


async def reopen(ledger: Ledger, call: Call, body: ReopenBody, query: Query) -> Answer:
    """Grant again."""
    return await ledger.carry_out(ReopenLedger(call.principal.acting(body.by)))


async def list_freezes(ledger: Ledger, call: Call, body: Body, query: TerritoryQuery) -> Answer:
    """All of them."""
    return json_answer(200, Freezes(_freezes(ledger.state, query.territory, ledger.now_s())))


def _freezes(state: State, territory: str | None, now_s: float) -> list[LeaseAnswer]:
    claims = [*(lease.claim for lease in state.leases.values()), *state.waiters.values()]
    frozen = [claim for claim in claims if claim.frozen_by and territory in {None, claim.territory}]
    frozen.sort(key=lambda claim: claim.claimed_seq)
    return [views.lease_answer(state, claim.id, now_s) for claim in frozen]


_OPERATING = ("invalid", "unavailable")
_LIMITS = {"max_exclusive": 40, "max_unlanded": 60, "max_share": 0.2, "reason": "CI is red"}
_ADMISSION = {
    "territory": "github.com/octo/widgets",
    "admission": {**_LIMITS, "by": "ann", "version": 51},
    "exclusive": 40,
    "unlanded": 12,
    "waiting": 3,
}

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "POST",
        "/v1/leases/{lease}/hold",
        hold,
        "As operator, let one lease be held for so long from now, whatever its territory's admission says",
        {200: LeaseAnswer},
        auth=Auth.OPERATOR,
        body=HoldBody,
        refusals=("unknown-lease", "key-reused", *_OPERATING),
        example={"hold_s": 14400.0, "by": "ann", "key": "7d21"},
        example_answers={200: {**GRANTED, "hold_ends_in_s": 14400.0}},
    ),
    Route(
        "GET",
        "/v1/admission",
        show_admission,
        "How much work a territory takes on, and how much there is now",
        {200: AdmissionAnswer},
        query=OfTerritoryQuery,
        refusals=("invalid",),
        example_answers={200: _ADMISSION},
    ),
    Route(
        "PUT",
        "/v1/admission",
        set_admission,
        "As operator, or as CI, say how much work a territory takes on: all of its limits anew",
        {200: AdmissionAnswer},
        auth=Auth.OPERATOR,
        query=OfTerritoryQuery,
        body=AdmissionBody,
        refusals=("conflict", "key-reused", *_OPERATING),
        example={**_LIMITS, "key": "0f3a", "expected": 0},
        example_answers={200: _ADMISSION},
    ),
    Route(
        "POST",
        "/v1/freezes",
        freeze,
        "As operator, let nobody write under globs: at once, or when those who do have yielded",
        {201: LeaseAnswer, 202: LeaseAnswer, 200: LeaseAnswer},
        auth=Auth.OPERATOR,
        body=FreezeBody,
        refusals=("bad-pattern", "bad-ttl", *_OPERATING),
        example={
            "key": "5d0c",
            "territory": "github.com/octo/widgets",
            "globs": FROZEN["globs"],
            "reason": FROZEN["note"],
            "within_s": 60.0,
            "ttl_s": 7200.0,
        },
        example_answers={
            201: FROZEN,
            202: {**FROZEN, "state": "waiting", "token": 0, "position": 1},
            200: {**ENDED, "lease": "L60"},
        },
    ),
    Route(
        "GET",
        "/v1/freezes",
        list_freezes,
        "List what is frozen, or will be as soon as its holders have yielded",
        {200: Freezes},
        query=TerritoryQuery,
        refusals=("invalid",),
        example_answers={200: {"freezes": [FROZEN]}},
    ),
    Route(
        "DELETE",
        "/v1/freezes/{lease}",
        unfreeze,
        "As operator, lift a freeze: who was recalled for it gets its ground back",
        {200: LeaseAnswer},
        auth=Auth.OPERATOR,
        query=OperatorQuery,
        refusals=("unknown-lease", "key-reused", *_OPERATING),
        example_answers={200: {**ENDED, "lease": "L60"}},
    ),
    Route(
        "POST",
        "/v1/reopen",
        reopen,
        "As operator, have a ledger that was brought back from a backup grant claims again before its time is over",
        {200: Done},
        auth=Auth.OPERATOR,
        body=ReopenBody,
        refusals=_OPERATING,
        example={"by": "ann"},
        example_answers={200: {"ok": True}},
    ),
)
