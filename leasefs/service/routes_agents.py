"""/v1/agents: the identities that the ledger has issued; and whom it takes a caller for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.answers import AgentAnswer
from leasefs.core.identities import agents
from leasefs.core.identity_commands import RevokeAgent
from leasefs.core.records import replace
from leasefs.service.exchange import Answer, Call, json_answer
from leasefs.service.replies import Agents, WhoAmI
from leasefs.service.requests import Body, Query, RevokeBody
from leasefs.service.requests_agents import AgentBody, ChangeBody, RotateBody
from leasefs.service.routes import Auth, Route

if TYPE_CHECKING:
    from leasefs.service.context import Ledger


async def add_agent(ledger: Ledger, call: Call, body: AgentBody, query: Query) -> Answer:
    """Issue one."""
    return await ledger.carry_out(body.command(call.principal.acting(body.by)), 201)


async def change_agent(ledger: Ledger, call: Call, body: ChangeBody, query: Query) -> Answer:
    """More, or less, or somebody else's."""
    name, operator = call.params["identity"], call.principal.acting(body.by)
    return await ledger.carry_out(body.command(operator, name, ledger.state.identities.get(name)))


async def rotate_agent(ledger: Ledger, call: Call, body: RotateBody, query: Query) -> Answer:
    """Another token."""
    operator = call.principal.acting(body.by)
    return await ledger.carry_out(body.command(operator, call.params["identity"]))


async def revoke_agent(ledger: Ledger, call: Call, body: RevokeBody, query: Query) -> Answer:
    """End one."""
    operator = call.principal.acting(body.by)
    return await ledger.carry_out(RevokeAgent(operator, call.params["identity"]))


async def list_agents(ledger: Ledger, call: Call, body: Body, query: Query) -> Answer:
    """All of them, with when they were heard of last."""
    now_s = ledger.now_s()
    found = [_heard_of(ledger, one, now_s) for one in agents(ledger.state, now_s)]
    return json_answer(200, Agents(found))


def _heard_of(ledger: Ledger, agent: AgentAnswer, now_s: float) -> AgentAnswer:
    at_s = ledger.heard_of.get(agent.agent)
    if at_s is None:
        return agent
    ago_s = now_s - at_s
    return replace(
        agent, used_ago_s=ago_s if agent.used_ago_s is None else min(ago_s, agent.used_ago_s)
    )


async def whoami(ledger: Ledger, call: Call, body: Body, query: Query) -> Answer:
    """Who asks."""
    who = call.principal
    known = ledger.state.identities.get(who.identity)
    answer = WhoAmI(
        name=who.name,
        role=who.role,
        identity=who.identity,
        session=call.session.id if call.session else "",
        priority=known.priority if known else None,
    )
    return json_answer(200, answer)


_AGENT = {
    "agent": "ci-7",
    "role": "agent",
    "priority": 0,
    "added_ago_s": 86400.0,
    "added_by": "ann",
    "user": "ci",
    "uid": 998,
    "used_ago_s": 12.0,
    "sessions": ["s-4f1c2a9be0d74c31"],
}
_TOKEN = {
    "token_id": "1f3a9c02b7de",
    "token_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
}
_ISSUED = {**_AGENT, "added_ago_s": 0.0, "used_ago_s": None, "sessions": []}
_DECIDING = ("invalid", "unavailable")

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "POST",
        "/v1/agents",
        add_agent,
        "As operator, issue an identity: its caller made the token, and sends its hash",
        {201: AgentAnswer},
        auth=Auth.OPERATOR,
        body=AgentBody,
        refusals=_DECIDING,
        example={"agent": "ci-7", **_TOKEN, "role": "agent", "user": "root", "by": "ann"},
        example_answers={201: _ISSUED},
    ),
    Route(
        "GET",
        "/v1/agents",
        list_agents,
        "List identities, revoked ones too",
        {200: Agents},
        example_answers={200: {"agents": [_AGENT]}},
    ),
    Route(
        "PATCH",
        "/v1/agents/{identity}",
        change_agent,
        "As operator, change what an identity may do, or which local user it belongs to",
        {200: AgentAnswer},
        auth=Auth.OPERATOR,
        body=ChangeBody,
        refusals=_DECIDING,
        example={"role": "agent", "priority": 20, "by": "ann"},
        example_answers={200: {**_AGENT, "priority": 20}},
    ),
    Route(
        "POST",
        "/v1/agents/{identity}/rotate",
        rotate_agent,
        "As operator, give an identity another token",
        {200: AgentAnswer},
        auth=Auth.OPERATOR,
        body=RotateBody,
        refusals=_DECIDING,
        example={**_TOKEN, "grace_s": 3600.0},
        example_answers={
            200: {
                **_AGENT,
                "rotated_ago_s": 0.0,
                "rotated_by": "ann",
                "former_token_good_for_s": 3600.0,
            }
        },
    ),
    Route(
        "POST",
        "/v1/agents/{identity}/revoke",
        revoke_agent,
        "As operator, end an identity: its sessions lose all that they hold",
        {200: AgentAnswer},
        auth=Auth.OPERATOR,
        body=RevokeBody,
        refusals=_DECIDING,
        example={"by": "ann"},
        example_answers={
            200: {**_AGENT, "revoked_ago_s": 0.0, "revoked_by": "ann", "sessions": []}
        },
    ),
    Route(
        "GET",
        "/v1/whoami",
        whoami,
        "Whom the ledger takes the caller for, and what they may",
        {200: WhoAmI},
        example_answers={
            200: {"name": "ci-7", "role": "agent", "identity": "ci-7", "session": "", "priority": 0}
        },
    ),
)
