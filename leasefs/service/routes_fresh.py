"""/v1/fresh: the last success of each check on a content (`leasefs fresh`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core import fresh
from leasefs.core.answers import FreshAnswer
from leasefs.core.commands import RecordFresh
from leasefs.core.errors import Denied
from leasefs.core.records import replace
from leasefs.service.exchange import Answer, Call, json_answer
from leasefs.service.replies import Successes
from leasefs.service.requests import Body, FreshBody, FreshQuery, Query
from leasefs.service.routes import Auth, Route

if TYPE_CHECKING:
    from leasefs.service.context import Ledger


async def record_fresh(ledger: Ledger, call: Call, body: FreshBody, query: Query) -> Answer:
    """Remember a success, as one of whoever the ledger knows to ask."""
    identity = call.principal.identity
    if identity and body.agent not in {"", identity}:
        raise Denied(
            f"{identity} may not record a success of {body.agent!r}; leave the agent's name out",
            identity=identity,
            agent=body.agent,
        )
    recorded = body.fresh()
    return await ledger.carry_out(
        RecordFresh(replace(recorded, agent=identity) if identity else recorded), 201
    )


async def list_fresh(ledger: Ledger, call: Call, body: Body, query: FreshQuery) -> Answer:
    """What succeeded last."""
    found = fresh.answers(ledger.state, query.territory, query.key, ledger.now_s())
    return json_answer(200, Successes(found))


_SUCCESS = {
    "territory": "github.com/octo/widgets",
    "key": "lint",
    "content": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "command": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
    "globs": ["src/**"],
    "files": 123,
    "agent": "agent-07",
    "host": "builder-2",
    "took_s": 42.0,
}

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "POST",
        "/v1/fresh",
        record_fresh,
        "Record that a check succeeded on a content; it replaces the last success under its key",
        {201: FreshAnswer},
        auth=Auth.AGENT,
        body=FreshBody,
        refusals=("invalid", "unavailable"),
        example=_SUCCESS,
        example_answers={201: {**_SUCCESS, "ago_s": 0.0}},
    ),
    Route(
        "GET",
        "/v1/fresh",
        list_fresh,
        "The last success of each check of a territory, or of the one with this key",
        {200: Successes},
        query=FreshQuery,
        refusals=("invalid",),
        example_answers={200: {"fresh": [{**_SUCCESS, "ago_s": 7200.0}]}},
    ),
)
