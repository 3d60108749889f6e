"""/v1/intents, /v1/foreign-writes, /v1/rescues: what mounts tell of their trees, and who asks about it."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from leasefs.core import views
from leasefs.core.answers import Dropped, ForeignAnswer, IntentsAnswer, RescueAnswer, SettledAnswer
from leasefs.core.commands import DropRescue
from leasefs.service.exchange import Answer, Call, json_answer
from leasefs.service.replies import Intents, Rescues
from leasefs.service.requests import Body, Query, TerritoryQuery
from leasefs.service.requests_trees import (
    ForeignWritesBody,
    IntentsBody,
    IntentsQuery,
    RescueBody,
    SettledBody,
)
from leasefs.service.routes import BATCH_BODY_BYTES, Auth, Route

if TYPE_CHECKING:
    from leasefs.service.context import Ledger


async def report_intents(ledger: Ledger, call: Call, body: IntentsBody, query: Query) -> Answer:
    """Keep what changed."""
    return await ledger.carry_out(body.command(call.caller.id))


async def settle_intents(ledger: Ledger, call: Call, body: SettledBody, query: Query) -> Answer:
    """What became of it."""
    return await ledger.carry_out(body.command(call.caller.id))


async def list_intents(ledger: Ledger, call: Call, body: Body, query: IntentsQuery) -> Answer:
    """Who has what uncommitted."""
    found = list(views.intents(ledger.state, query.wanted()))
    oldest = nsmallest(query.limit, found, key=lambda one: (one.first_wall_s, one.path, one.lease))
    return json_answer(200, Intents(oldest, len(found)))


async def report_foreign_writes(
    ledger: Ledger, call: Call, body: ForeignWritesBody, query: Query
) -> Answer:
    """Write down what came through no mount."""
    return await ledger.carry_out(body.command(call.caller.id))


async def report_rescue(ledger: Ledger, call: Call, body: RescueBody, query: Query) -> Answer:
    """Keep where it is."""
    return await ledger.carry_out(body.command(call.caller.id))


async def list_rescues(ledger: Ledger, call: Call, body: Body, query: TerritoryQuery) -> Answer:
    """All of them."""
    return json_answer(200, Rescues(views.rescues(ledger.state, query.territory)))


async def drop_rescue(ledger: Ledger, call: Call, body: Body, query: Query) -> Answer:
    """Forget one."""
    return await ledger.carry_out(DropRescue(call.caller.id, call.params["rescue"]))


_NOTE = {
    "path": "packages/core/parse.py",
    "kind": "modify",
    "lease": "L42",
    "token": 43,
    "wall_s": 1767225600.0,
    "pid": 4802,
    "program": "vim",
    "size": 5120,
}
_TREE = {"tree": "t-5b1f0c0de0a1b2c3", "host": "build-3", "root": "/home/user/widgets"}
_INTENT = {
    **{name: _NOTE[name] for name in ("path", "kind", "lease", "token", "pid", "program", "size")},
    "tree": _TREE["tree"],
    "agent": "agent-07",
    "harness": "claude",
    "first_wall_s": 1767225600.0,
    "last_wall_s": 1767225723.0,
    "state": "dirty",
    "territory": "github.com/octo/widgets",
    "host": _TREE["host"],
    "root": _TREE["root"],
    "held": True,
}
_RESCUE = {
    "id": "L42",
    "tree": _TREE["tree"],
    "lease": "L42",
    "token": 43,
    "agent": "agent-07",
    "harness": "claude",
    "globs": ["packages/core/**"],
    "ref": "refs/leasefs/rescue/L42",
    "commit": "9fceb02d0ae598e95dc970b74767f19372d61af8",
    "paths": 1,
    "names": ["packages/core/parse.py"],
    "reason": "lapsed, then taken by agent-09",
    "wall_s": 1767225800.0,
    "host": _TREE["host"],
    "root": _TREE["root"],
}
_KEPT = {**_RESCUE, "territory": "github.com/octo/widgets", "by": "agent-09"}
_REPORT = ("invalid", "bad-path", "session-ended", "unavailable")

ROUTES: tuple[Route[Any, Any], ...] = (
    Route(
        "POST",
        "/v1/intents",
        report_intents,
        "Report what a mount changed, or what a dead mount's journal says it changed",
        {200: IntentsAnswer},
        auth=Auth.SESSION,
        body=IntentsBody,
        body_limit_bytes=BATCH_BODY_BYTES,
        refusals=_REPORT,
        example={**_TREE, "notes": [_NOTE]},
        example_answers={
            200: {"accepted": 2, "stale": [{"path": "docs/old.md", "lease": "L17", "token": 18}]}
        },
    ),
    Route(
        "GET",
        "/v1/intents",
        list_intents,
        "List what is uncommitted, or committed and not landed, oldest first",
        {200: Intents},
        query=IntentsQuery,
        refusals=("invalid",),
        example_answers={200: {"intents": [_INTENT], "total": 1}},
    ),
    Route(
        "POST",
        "/v1/intents/settled",
        settle_intents,
        "Report what git says became of paths, whoever changed them",
        {200: SettledAnswer},
        auth=Auth.SESSION,
        body=SettledBody,
        body_limit_bytes=BATCH_BODY_BYTES,
        refusals=_REPORT,
        example={
            "tree": _TREE["tree"],
            "settled": [
                {
                    "path": _NOTE["path"],
                    "outcome": "committed",
                    "commit": _RESCUE["commit"],
                    "blob": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
                }
            ],
        },
        example_answers={200: {"settled": 1, "ended": 0}},
    ),
    Route(
        "POST",
        "/v1/foreign-writes",
        report_foreign_writes,
        "Report changes of a tree that came through no mount",
        {200: ForeignAnswer},
        auth=Auth.SESSION,
        body=ForeignWritesBody,
        body_limit_bytes=BATCH_BODY_BYTES,
        refusals=_REPORT,
        example={
            "tree": _TREE["tree"],
            "changes": [{"path": _NOTE["path"], "what": "modified", "wall_s": 1767225600.0}],
        },
        example_answers={
            200: {"held": [{"path": _NOTE["path"], "agent": "agent-07", "lease": "L42"}]}
        },
    ),
    Route(
        "POST",
        "/v1/rescues",
        report_rescue,
        "Report a snapshot of uncommitted paths; the intents that it contains end",
        {200: RescueAnswer},
        auth=Auth.SESSION,
        body=RescueBody,
        body_limit_bytes=BATCH_BODY_BYTES,
        refusals=(*_REPORT, "bad-pattern"),
        example={"rescue": _RESCUE, "contained": _RESCUE["names"]},
        example_answers={200: {"rescue": _KEPT, "ended": 1}},
    ),
    Route(
        "GET",
        "/v1/rescues",
        list_rescues,
        "List rescues, newest first",
        {200: Rescues},
        query=TerritoryQuery,
        refusals=("invalid",),
        example_answers={200: {"rescues": [_KEPT]}},
    ),
    Route(
        "DELETE",
        "/v1/rescues/{rescue}",
        drop_rescue,
        "Forget a rescue; one that is not known is no error",
        {200: Dropped},
        auth=Auth.SESSION,
        refusals=("session-ended", "unavailable"),
        example_answers={200: {"dropped": True}},
    ),
)
